// Package netfault makes a network misbehave, for the tests of adapters that
// speak to a server: replies get lost, connections are cut or fall silent, a
// server refuses new ones.
//
// [Listen] starts a [Proxy] in front of a server. The adapter under test connects
// to its address, and the test arms faults:
//
//	lost := proxy.LoseReply([]byte("commit"))
//	_, err := store.CommitOwner(ctx, commit) // the server has committed, the caller can't know
//	<-lost.Struck()
//
// [Dialer] is the other half: it calls a function around every read and write
// of a client's connections, so that
// [github.com/countersign/countersign/storetest.CrashLadder] can kill the client
// at each of them.
package netfault
