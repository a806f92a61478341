// Package criwait waits until a container runtime serves the kubelet's interface.
package criwait

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Main returns 0 as soon as the runtime answers, 1 when it does not in time.
// containerd takes connections before this interface is ready; a kubelet that comes then ends itself.
func Main() int {
	flags := flag.NewFlagSet("cri-wait", flag.ExitOnError)
	socket := flags.String("socket", "", "the runtime's socket")
	timeout := flags.Duration("timeout", 30*time.Second, "how long to wait")
	_ = flags.Parse(os.Args[1:])
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer connection.Close()
	for {
		_, err := api.NewRuntimeServiceClient(connection).Version(ctx, &api.VersionRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return 0
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, err)
			return 1
		case <-time.After(50 * time.Millisecond):
		}
	}
}
