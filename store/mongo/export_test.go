package mongo

// CheckServer is what Open makes of a server that says so of itself.
func CheckServer(setName, message string, wireVersion int32) error {
	return hello{SetName: setName, Message: message, MaxWireVersion: wireVersion}.check()
}

// DatabaseOf is the database that a connection string names.
var DatabaseOf = databaseOf
