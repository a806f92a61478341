package deviceplugin

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// counts reads RESOURCE=COUNT pairs given as repeated flags.
type counts map[string]int

func (c counts) String() string { return fmt.Sprint(map[string]int(c)) }

func (c counts) Set(text string) error {
	name, number, found := strings.Cut(text, "=")
	count, err := strconv.Atoi(number)
	if !found || err != nil || count < 0 || !strings.Contains(name, "/") {
		return fmt.Errorf("%q is not DOMAIN/NAME=COUNT", text)
	}
	c[name] = count
	return nil
}

// Main advertises the resources for as long as it runs.
func Main() int {
	resources := counts{}
	flags := flag.NewFlagSet("device-plugin", flag.ExitOnError)
	folder := flags.String("folder", "/var/lib/kubelet/device-plugins", "the kubelet's folder for device plugins")
	flags.Var(resources, "resource", "DOMAIN/NAME=COUNT to advertise; may be given several times")
	_ = flags.Parse(os.Args[1:])
	if len(resources) == 0 {
		fmt.Fprintln(os.Stderr, "device-plugin: no -resource given")
		return 2
	}
	for name, count := range resources {
		go func() {
			s := newServer(name, count)
			for {
				if err := s.serve(*folder); err != nil {
					fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
				}
				time.Sleep(poll)
			}
		}()
	}
	select {}
}
