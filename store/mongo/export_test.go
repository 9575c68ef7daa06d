package mongo

import "context"

// CheckServer is what Open makes of a server that says so of itself.
func CheckServer(setName, message string, wireVersion int32) error {
	return hello{SetName: setName, Message: message, MaxWireVersion: wireVersion}.check()
}

// DatabaseOf is the database that a connection string names.
var DatabaseOf = databaseOf

// Wrap is what a caller learns of an error of the driver.
func Wrap(ctx context.Context, err error) error { return wrap(ctx, err, 0) }

// Patient is the context of a command in a transaction.
var Patient = patient

// Watching reports whether the store's change stream is open.
func Watching(s *Store) bool { return s.watching.isOpen() }
