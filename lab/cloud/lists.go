package cloud

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	defaultPerPage = 25 // API reference, pagination
	maxPerPage     = 50 // API reference, pagination
)

// collection says how a list of T can be asked for.
type collection[T any] struct {
	key     string                      // of the list in the answer
	id      func(T) int64               // for the effect hide
	labels  func(T) map[string]string   // if the list takes label_selector
	filters map[string]func(T) string   // by query parameter; one of its values must equal
	sorts   map[string]func(a, b T) int // by field
}

// by makes a sort order of a field.
func by[T any, K cmp.Ordered](field func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(field(a), field(b)) }
}

// list answers with the page of items that the request asks for. Items come
// ordered by ID and keep that order where the request asks for none.
func (c collection[T]) list(r *request, items []T) (any, error) {
	query := r.URL.Query()
	selector, err := c.selector(query)
	if err != nil {
		return nil, err
	}
	order, err := c.order(query)
	if err != nil {
		return nil, err
	}
	page, err := positive(query, "page", 1)
	if err != nil {
		return nil, err
	}
	perPage, err := positive(query, "per_page", defaultPerPage)
	if err != nil {
		return nil, err
	}
	perPage = min(perPage, maxPerPage) // guess: more is not an error

	items = slices.DeleteFunc(slices.Clone(items), func(item T) bool {
		switch {
		case r.fault.is(EffectEmpty), r.fault.is(EffectHide) && c.id(item) == r.fault.ResourceID:
			return true
		case selector != nil && !selector.Matches(labels.Set(c.labels(item))):
			return true
		}
		for parameter, field := range c.filters {
			if wanted := query[parameter]; len(wanted) > 0 && !slices.Contains(wanted, field(item)) {
				return true
			}
		}
		return false
	})
	slices.SortStableFunc(items, order)

	last := max(1, (len(items)+perPage-1)/perPage)
	r.setLinks(query, page, perPage, last)
	first := min(len(items), (min(page, last+1)-1)*perPage)
	return object{
		c.key:  append([]T{}, items[first:min(len(items), first+perPage)]...),
		"meta": object{"pagination": pagination(page, perPage, last, len(items))},
	}, nil
}

func (c collection[T]) selector(query url.Values) (labels.Selector, error) {
	if c.labels == nil {
		return nil, nil
	}
	return parseSelector("label_selector", query.Get("label_selector"))
}

// parseSelector returns nil for an empty text. API reference, label selector: a
// subset of the language of Kubernetes. That k!=v also selects what has no k,
// as in Kubernetes, is a guess.
func parseSelector(name, text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, invalid(name, "%s", err)
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan {
			return nil, invalid(name, "operator %s is unknown", r.Operator())
		}
	}
	return selector, nil
}

// order reads sort, which may repeat. API reference, sorting. That an unknown
// field is an error is a guess, and so is that lists without sorting ignore it.
func (c collection[T]) order(query url.Values) (func(a, b T) int, error) {
	orders := []func(a, b T) int{}
	for _, text := range query["sort"] {
		if len(c.sorts) == 0 {
			break
		}
		field, direction, _ := strings.Cut(text, ":")
		order, ok := c.sorts[field]
		switch {
		case !ok:
			return nil, invalid("sort", "cannot sort by '%s'", field)
		case direction == "desc":
			ascending := order
			order = func(a, b T) int { return ascending(b, a) }
		case direction != "" && direction != "asc":
			return nil, invalid("sort", "unknown direction '%s'", direction)
		}
		orders = append(orders, order)
	}
	return func(a, b T) int {
		for _, order := range orders {
			if n := order(a, b); n != 0 {
				return n
			}
		}
		return 0
	}, nil
}

// positive reads a number from the query. That others than positive ones are
// an error is a guess.
func positive(query url.Values, name string, otherwise int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, invalid(name, "must be a positive number")
	}
	return n, nil
}

// pagination has all six keys. API reference, pagination: previous and next
// are null at the ends.
func pagination(page, perPage, last, total int) object {
	p := object{
		"page":          page,
		"per_page":      perPage,
		"previous_page": nil,
		"next_page":     nil,
		"last_page":     last,
		"total_entries": total,
	}
	if page > 1 {
		p["previous_page"] = min(page-1, last)
	}
	if page < last {
		p["next_page"] = page + 1
	}
	return p
}

// setLinks sets the header Link. Seen live: rel without quotes, last also on
// the only page.
func (r *request) setLinks(query url.Values, page, perPage, last int) {
	links := []string{}
	link := func(rel string, page int) {
		query.Set("page", strconv.Itoa(page))
		if query.Has("per_page") {
			query.Set("per_page", strconv.Itoa(perPage))
		}
		u := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}
		if r.TLS != nil {
			u.Scheme = "https"
		}
		links = append(links, fmt.Sprintf("<%s>; rel=%s", u.String(), rel))
	}
	if page > 1 {
		link("prev", min(page-1, last))
	}
	if page < last {
		link("next", page+1)
	}
	link("last", last)
	r.header.Set("Link", strings.Join(links, ", "))
}
