// The programs of the local Kubernetes in one binary, so that they are linked once.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"pd-operator.io/tests/cluster/kube/criwait"
	"pd-operator.io/tests/cluster/kube/deviceplugin"
)

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it as kubectl does, and exits
	}
	return 0
}

var programs = map[string]func() int{
	"apiserver":          command(apiserver.NewAPIServerCommand),
	"controller-manager": command(controllermanager.NewControllerManagerCommand),
	"scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet": command(func() *cobra.Command {
		return kubelet.NewKubeletCommand(context.Background()) // it catches signals itself
	}),
	"proxy":         command(proxy.NewProxyCommand),
	"kubectl":       runKubectl,
	"etcd":          func() int { etcdmain.Main(os.Args); return 0 },
	"coredns":       func() int { coremain.Run(); return 0 },
	"cri-wait":      criwait.Main,
	"device-plugin": deviceplugin.Main,
}

func main() {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [ARGUMENT...]; programs: %v\n", os.Args[0], names)
		os.Exit(2)
	}
	run := programs[os.Args[1]]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	os.Exit(run())
}
