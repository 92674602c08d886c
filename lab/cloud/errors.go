package cloud

import (
	"fmt"
	"net/http"
)

// object is a JSON object.
type object = map[string]any

// apiError is an error as the API answers it.
// API reference, errors: code and message are required, details depend on the code.
type apiError struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

func failure(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// field names the part of a request that is at fault.
type field struct {
	Name     string   `json:"name"`
	Messages []string `json:"messages,omitempty"`
}

// invalid is a 422 that blames one field.
// API reference, errors: "invalid input in field 'broken_field': is too long".
func invalid(name, problem string, args ...any) *apiError {
	problem = fmt.Sprintf(problem, args...)
	err := failure(http.StatusUnprocessableEntity, "invalid_input", "invalid input in field '%s': %s", name, problem)
	err.Details = object{"fields": []field{{Name: name, Messages: []string{problem}}}}
	return err
}

// rejected is a 422 that blames one field in the words of the real API.
func rejected(name, message string, args ...any) *apiError {
	err := invalid(name, message, args...)
	err.Message = fmt.Sprintf(message, args...)
	return err
}

func required(name string) *apiError { return invalid(name, "is required") }

// notFound is the answer about the resource that the path names.
func notFound(kind string, id int64) *apiError {
	return failure(http.StatusNotFound, "not_found", "%s with ID %d not found", kind, id)
}

// noSuch is the answer about a resource that the body names. Seen for the
// targets of load balancers: "server with ID 123 not found (invalid_input)";
// that other references answer alike is a guess.
func noSuch(name, kind string, id int64) *apiError {
	return rejected(name, "%s with ID %d not found", kind, id)
}

// notUnique is a 409. API reference, errors: details name the field.
func notUnique(name, message string) *apiError {
	err := failure(http.StatusConflict, "uniqueness_error", "%s", message)
	err.Details = object{"fields": []field{{Name: name}}}
	return err
}

// limitExceeded is a 403. API reference, errors: details name the limit. The
// names of the limits are guesses.
func limitExceeded(limit, message string) *apiError {
	err := failure(http.StatusForbidden, "resource_limit_exceeded", "%s", message)
	err.Details = object{"limits": []field{{Name: limit}}}
	return err
}

// unprocessable is a 422 with a code of the operation's own.
func unprocessable(code, message string, args ...any) *apiError {
	return failure(http.StatusUnprocessableEntity, code, message, args...)
}

// protected is a 423. API reference, errors. The message is a guess.
func protected(kind string) *apiError {
	return failure(http.StatusLocked, "protected", "%s is protected from deletion", kind)
}

// codes are the codes that a status has when nothing more special is known.
// API reference, error codes.
var codes = map[int]string{
	400: "json_error",
	401: "unauthorized",
	403: "forbidden",
	404: "not_found",
	405: "method_not_allowed",
	409: "conflict",
	410: "deprecated_api_endpoint",
	412: "resource_unavailable",
	422: "invalid_input",
	423: "locked",
	429: "rate_limit_exceeded",
	500: "server_error",
	502: "bad_gateway",
	503: "unavailable",
	504: "timeout",
}
