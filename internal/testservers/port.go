package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below the range from which systems take ports for outgoing
// connections: while a server is down for its restart nobody takes its port.
const (
	lowestPort  = 20_000
	highestPort = 32_000
)

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort returns a port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	var failed error
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", local(port))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, errors.Join(errors.New("no free port"), failed)
}
