// Package deviceplugin advertises devices that do not exist to the kubelet, through its real API.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const poll = 500 * time.Millisecond

var notInVariables = regexp.MustCompile("[^A-Z0-9]+")

// server answers the kubelet for one resource.
type server struct {
	api.UnimplementedDevicePluginServer
	resource string
	devices  []*api.Device
}

func newServer(resource string, count int) *server {
	short := resource[strings.LastIndex(resource, "/")+1:]
	s := &server{resource: resource}
	for i := range count {
		s.devices = append(s.devices, &api.Device{ID: fmt.Sprintf("%s-%d", short, i), Health: api.Healthy})
	}
	return s
}

// variable names the environment variable that tells a container its devices.
func (s *server) variable() string {
	return "DEVICES_" + strings.Trim(notInVariables.ReplaceAllString(strings.ToUpper(s.resource), "_"), "_")
}

func (s *server) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (s *server) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: s.devices}); err != nil {
		return err
	}
	<-stream.Context().Done() // the devices never change
	return nil
}

func (s *server) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{s.variable(): strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}

// identity tells one kubelet's socket from its successor's; empty while there is none.
func identity(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%v %v", info.ModTime(), info.Sys())
}

// serve registers the resource and answers until the kubelet's socket, or the own one, goes.
// The kubelet empties its folder when it starts, and forgets every plugin then.
func (s *server) serve(folder string) error {
	kubelet := filepath.Join(folder, "kubelet.sock")
	known := identity(kubelet)
	if known == "" {
		return nil
	}
	own := "pd-" + strings.ToLower(strings.ReplaceAll(s.variable(), "_", "-")) + ".sock"
	path := filepath.Join(folder, own)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	grpcServer := grpc.NewServer()
	api.RegisterDevicePluginServer(grpcServer, s)
	go func() { _ = grpcServer.Serve(listener) }()
	defer grpcServer.Stop()
	if err := register(kubelet, own, s.resource); err != nil {
		return err
	}
	fmt.Printf("%s: %d devices registered\n", s.resource, len(s.devices))
	for identity(kubelet) == known && identity(path) != "" {
		time.Sleep(poll)
	}
	return nil
}

func register(kubelet, endpoint, resource string) error {
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: resource,
	})
	return err
}
