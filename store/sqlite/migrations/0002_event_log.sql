-- The event log, its constraint index, effect receipts and observers. Numbers are
-- those of 64 bits without a sign: what is above 2^63-1, as the next number of a
-- sequence that is full, is stored as the negative number of the same bits. What
-- is optional is null where it is absent. Times are microseconds since 1970, UTC.
CREATE TABLE {p}event_stores (
  event_store TEXT NOT NULL PRIMARY KEY,
  revision    INTEGER NOT NULL,
  constraints INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE {p}definitions (
  event_store TEXT NOT NULL,
  kind        TEXT NOT NULL,
  name        TEXT NOT NULL,
  generation  INTEGER NOT NULL,
  body        BLOB NOT NULL,
  PRIMARY KEY (event_store, kind, name, generation)
) STRICT;

-- indexed, building and through say how far the constraint index is.
CREATE TABLE {p}sequences (
  sequence_key INTEGER PRIMARY KEY,
  event_store  TEXT NOT NULL,
  namespace    TEXT NOT NULL,
  name         TEXT NOT NULL,
  next         INTEGER NOT NULL,
  indexed      INTEGER NOT NULL,
  building     INTEGER NOT NULL,
  through      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX {p}sequences_name ON {p}sequences (event_store, namespace, name);

-- A table with rowids: events are appended at its end, whatever their sequence,
-- and a content of a kilobyte or more needs no page of its own. The tags are
-- here in their order, and in event_tags to be found.
CREATE TABLE {p}events (
  sequence_key   INTEGER NOT NULL,
  number         INTEGER NOT NULL,
  type           TEXT NOT NULL,
  generation     INTEGER NOT NULL,
  source         TEXT NOT NULL,
  source_type    TEXT,
  stream_type    TEXT,
  stream_id      TEXT,
  subject        TEXT,
  tags           BLOB,
  content        BLOB NOT NULL,
  occurred       INTEGER NOT NULL,
  correlation_id TEXT,
  causation_id   TEXT,
  caused_by      TEXT,
  PRIMARY KEY (sequence_key, number)
) STRICT;
CREATE INDEX {p}events_source ON {p}events (sequence_key, source, number);
CREATE INDEX {p}events_type ON {p}events (sequence_key, type, number);
-- What an event does not have costs it nothing.
CREATE INDEX {p}events_source_type ON {p}events (sequence_key, source_type, number) WHERE source_type IS NOT NULL;
CREATE INDEX {p}events_stream_type ON {p}events (sequence_key, stream_type, number) WHERE stream_type IS NOT NULL;
CREATE INDEX {p}events_stream_id ON {p}events (sequence_key, stream_id, number) WHERE stream_id IS NOT NULL;

CREATE TABLE {p}event_tags (
  sequence_key INTEGER NOT NULL,
  tag          BLOB NOT NULL, -- name, NUL, value
  number       INTEGER NOT NULL,
  PRIMARY KEY (sequence_key, tag, number)
) STRICT, WITHOUT ROWID;

-- In one index a source holds one value, and a value has one holder.
CREATE TABLE {p}claims (
  sequence_key INTEGER NOT NULL,
  index_key    BLOB NOT NULL,
  source       TEXT NOT NULL,
  value_key    BLOB NOT NULL,
  number       INTEGER NOT NULL,
  PRIMARY KEY (sequence_key, index_key, source)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX {p}claims_value ON {p}claims (sequence_key, index_key, value_key);

-- sequence, first and last are those of the outcome "appended"; reasons, a JSON
-- array, are those of "refused".
CREATE TABLE {p}effect_receipts (
  event_store TEXT NOT NULL,
  namespace   TEXT NOT NULL,
  occurrence  TEXT NOT NULL,
  effect      TEXT NOT NULL,
  outcome     TEXT NOT NULL,
  sequence    TEXT,
  first       INTEGER,
  last        INTEGER,
  reasons     BLOB,
  epoch       INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL,
  response    BLOB,
  PRIMARY KEY (event_store, namespace, occurrence, effect)
) STRICT, WITHOUT ROWID;

-- An observer may be there before its sequence is.
CREATE TABLE {p}observers (
  observer_key  INTEGER PRIMARY KEY,
  event_store   TEXT NOT NULL,
  namespace     TEXT NOT NULL,
  sequence      TEXT NOT NULL,
  name          TEXT NOT NULL,
  next          INTEGER NOT NULL,
  replay_before INTEGER NOT NULL,
  fence         INTEGER NOT NULL,
  holder        TEXT,
  lease_until   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX {p}observers_name ON {p}observers (event_store, namespace, sequence, name);

CREATE TABLE {p}observer_partitions (
  observer_key  INTEGER NOT NULL,
  source        TEXT NOT NULL,
  next          INTEGER NOT NULL, -- the lowest number that is not handled
  replay_before INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  quarantined   INTEGER NOT NULL,
  retry_at      INTEGER NOT NULL,
  last_error    TEXT,
  operator      TEXT,
  operator_at   INTEGER NOT NULL,
  PRIMARY KEY (observer_key, source)
) STRICT, WITHOUT ROWID;
-- Pages of those that are due are in the order of their source: what is not due yet
-- costs an entry of this index.
CREATE INDEX {p}observer_partitions_due ON {p}observer_partitions (observer_key, source, retry_at) WHERE quarantined = 0;
