package loadbalancer

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// A watch of a Secret ends after watchTime, so that none stays open for long that
// no Service needs, and another one begins after watchDelay. By itself the API
// server would end each after half an hour or more.
const (
	watchTime  = 5 * time.Minute
	watchDelay = 5 * time.Second
)

// Secret returns a Secret that a Service names, and asks for passes when it
// changes from then on, or is created.
func (r *Repair) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := r.Client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	key, version := types.NamespacedName{Namespace: namespace, Name: name}, ""
	switch {
	case err == nil:
		version = secret.ResourceVersion
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watched[key] {
		r.watched[key] = true
		go r.follow(context.WithoutCancel(ctx), key, version)
	}
	return secret, err
}

// follow watches a Secret until no Service names it. It asks for that one only:
// a Role with its name is right enough, and no other Secret gets here. Without
// the right, the Secret is still read in each pass, and the right asked for again.
func (r *Repair) follow(ctx context.Context, key types.NamespacedName, version string) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
		TimeoutSeconds: new(int64(watchTime.Seconds())),
	}
	told := false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.unwatch(key) {
			cancel()
			return
		}
		changes, err := r.Client.Secrets(key.Namespace).Watch(ctx, options)
		if apierrors.IsForbidden(err) {
			if !told {
				logger.Error(err, "Changes of a Secret are noticed late", "secret", key, "period", r.Period)
			}
			told = true
			select { // somebody may grant it
			case <-time.After(r.Period):
			case <-ctx.Done():
			}
			return
		}
		if err != nil {
			logger.Error(err, "Unable to watch Secret", "secret", key)
			return
		}
		defer changes.Stop()
		for change := range changes.ResultChan() {
			if now, ok := versionOf(change); ok && now != version {
				version = now
				for _, service := range r.naming(key) {
					r.Again(service, 0)
				}
			}
		}
	}, watchDelay)
}

// versionOf returns what a Secret's version is after a change, empty if it is
// gone. A watch begins with the version that there is.
func versionOf(change watch.Event) (string, bool) {
	secret, ok := change.Object.(*corev1.Secret)
	if !ok || change.Type == watch.Deleted {
		return "", ok
	}
	return secret.ResourceVersion, true
}

// unwatch forgets a Secret that no Service names, and tells whether it has.
func (r *Repair) unwatch(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.naming(key)) > 0 {
		return false
	}
	delete(r.watched, key)
	return true
}

// naming lists the Services that name a Secret.
func (r *Repair) naming(key types.NamespacedName) []*corev1.Service {
	services, err := r.Services.Services(key.Namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(services, func(s *corev1.Service) bool {
		return !Wanted(s) || s.Annotations[Prefix+"http-tls-secret"] != key.Name
	})
}
