package countersign

// A Namespace is a part of an event store, as of one tenant. Event sequences,
// receipts and observers belong to a namespace; definitions (event types,
// constraints) belong to the event store. Neither must be created: the
// first write does. There is no default: both names are explicit.
type Namespace struct {
	EventStore string
	Name       string
}

// Check reports the first rule that the names break, as [CheckIdentity] does.
func (n Namespace) Check() error {
	if err := CheckIdentity("event store", n.EventStore); err != nil {
		return err
	}
	return CheckIdentity("namespace", n.Name)
}
