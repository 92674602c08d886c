package cloud

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

var sshKeyList = collection[*schema.SSHKey]{
	key:    "ssh_keys",
	id:     sshKeyID,
	labels: func(k *schema.SSHKey) map[string]string { return k.Labels },
	filters: map[string]func(*schema.SSHKey) string{
		"name":        sshKeyName,
		"fingerprint": func(k *schema.SSHKey) string { return k.Fingerprint },
	},
	sorts: map[string]func(a, b *schema.SSHKey) int{
		"id":   by(sshKeyID),
		"name": by(sshKeyName),
	},
}

func sshKeyID(k *schema.SSHKey) int64    { return k.ID }
func sshKeyName(k *schema.SSHKey) string { return k.Name }

var sshKeyRoutes = routes{
	"GET /ssh_keys":         {http.StatusOK, func(r *request) (any, error) { return sshKeyList.list(r, byID(r.project.sshKeys)) }},
	"POST /ssh_keys":        {http.StatusCreated, createSSHKey},
	"GET /ssh_keys/{id}":    {http.StatusOK, getSSHKey},
	"PUT /ssh_keys/{id}":    {http.StatusOK, updateSSHKey},
	"DELETE /ssh_keys/{id}": {http.StatusNoContent, deleteSSHKey},
}

func createSSHKey(r *request) (any, error) {
	var in struct {
		schema.SSHKeyCreateRequest
		Labels map[string]string `json:"labels"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.PublicKey == "" {
		return nil, required("public_key")
	}
	fingerprint, ok := fingerprint(in.PublicKey)
	if !ok {
		return nil, invalid("public_key", "is not an SSH public key")
	}
	if err := r.checkSSHKey(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	for _, k := range r.project.sshKeys {
		if k.Fingerprint == fingerprint {
			// API reference, errors: this very example.
			return nil, notUnique("public_key", "SSH key with the same fingerprint already exists")
		}
	}
	k := &schema.SSHKey{
		ID:          r.cloud.nextID("ssh_key"),
		Name:        in.Name,
		Fingerprint: fingerprint,
		PublicKey:   in.PublicKey,
		Labels:      orEmpty(in.Labels),
		Created:     now(),
	}
	r.project.sshKeys[k.ID] = k
	return object{"ssh_key": k}, nil
}

func (r *request) checkSSHKey(id int64, name string, labels map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, k := range r.project.sshKeys {
		if k.Name == name && k.ID != id {
			return notUnique("name", "name is already used") // guess: worded as for networks
		}
	}
	return checkLabels(labels)
}

func (r *request) sshKey() (*schema.SSHKey, error) {
	if k, ok := r.project.sshKeys[r.id]; ok {
		return k, nil
	}
	return nil, notFound("SSH key", r.id)
}

func getSSHKey(r *request) (any, error) {
	k, err := r.sshKey()
	if err != nil {
		return nil, err
	}
	return object{"ssh_key": k}, nil
}

func updateSSHKey(r *request) (any, error) {
	k, err := r.sshKey()
	if err != nil {
		return nil, err
	}
	in := update{Name: k.Name}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = k.Labels
	}
	if err := r.checkSSHKey(k.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	k.Name, k.Labels = in.Name, in.Labels
	return object{"ssh_key": k}, nil
}

func deleteSSHKey(r *request) (any, error) {
	k, err := r.sshKey()
	if err != nil {
		return nil, err
	}
	delete(r.project.sshKeys, k.ID)
	return nil, nil
}

// update is the body of a PUT of anything with name and labels; what it lacks
// stays. API reference, update: labels "will overwrite the existing" set.
type update struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// orEmpty makes labels an object in JSON, never null.
func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// fingerprint is the MD5 sum of a public key in OpenSSH's format, as the API
// shows it, or not ok.
func fingerprint(publicKey string) (string, bool) {
	fields := strings.Fields(publicKey)
	if len(fields) < 2 {
		return "", false
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	// RFC 4253, 6.6: the key starts with the length and the name of its type.
	kind := append(binary.BigEndian.AppendUint32(nil, uint32(len(fields[0]))), fields[0]...)
	if err != nil || len(blob) == len(kind) || !bytes.HasPrefix(blob, kind) {
		return "", false
	}
	sum := md5.Sum(blob)
	return strings.ReplaceAll(fmt.Sprintf("% x", sum[:]), " ", ":"), true
}
