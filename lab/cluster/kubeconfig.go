package cluster

import (
	"context"
	"fmt"
	"net/url"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// KubeconfigFor writes a kubeconfig file for a user in the given groups, by a
// client certificate, and returns its path. What the user may do is up to RBAC.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (path string, err error) {
	u, err := c.plane.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return "", err
	}
	return c.writeKubeconfig(user, u.Config())
}

// ServiceAccountKubeconfig writes a kubeconfig file with a token of a
// ServiceAccount, as a Pod would have it, and returns its path. The token is
// good for an hour. It is an error if there is no such ServiceAccount.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (path string, err error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token for service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = request.Status.Token
	return c.writeKubeconfig(namespace+"-"+name, config)
}

// writeKubeconfig writes config to a new file in Dir.
func (c *Cluster) writeKubeconfig(user string, config *rest.Config) (path string, err error) {
	file, err := os.CreateTemp(c.Dir(), url.PathEscape(user)+"-*.kubeconfig")
	if err != nil {
		return "", err
	}
	defer file.Close()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["lab"] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	kubeconfig.CurrentContext = "lab"
	return file.Name(), clientcmd.WriteToFile(*kubeconfig, file.Name())
}
