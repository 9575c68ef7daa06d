-- The durable owner. Ids are compared byte by byte (the BINARY collation of a
-- UTF-8 database), payloads are opaque bytes, and rows are kept by the owner's
-- key so that what belongs together stands together.
CREATE TABLE {p}owners (
  owner_key INTEGER PRIMARY KEY,
  owner_id  TEXT NOT NULL,
  mode      INTEGER NOT NULL CHECK (mode IN (1, 2)), -- 1 event history, 2 snapshot
  position  INTEGER NOT NULL CHECK (position >= 0),
  fence     INTEGER NOT NULL CHECK (fence >= 0)
) STRICT;
CREATE UNIQUE INDEX {p}owners_id ON {p}owners (owner_id);

CREATE TABLE {p}history (
  owner_key      INTEGER NOT NULL REFERENCES {p}owners (owner_key) DEFERRABLE INITIALLY DEFERRED,
  position       INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  codec_version  INTEGER NOT NULL,
  bytes          BLOB NOT NULL,
  PRIMARY KEY (owner_key, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE {p}snapshots (
  owner_key      INTEGER PRIMARY KEY REFERENCES {p}owners (owner_key) DEFERRABLE INITIALLY DEFERRED,
  position       INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  codec_version  INTEGER NOT NULL,
  bytes          BLOB NOT NULL
) STRICT;

CREATE TABLE {p}inbox (
  owner_key         INTEGER NOT NULL REFERENCES {p}owners (owner_key) DEFERRABLE INITIALLY DEFERRED,
  inbox_id          TEXT NOT NULL,
  fingerprint       BLOB NOT NULL,
  committed_through INTEGER NOT NULL,
  PRIMARY KEY (owner_key, inbox_id)
) STRICT, WITHOUT ROWID;

-- receipt_id is set with the effect's terminal receipt, in the same transaction:
-- an effect is pending as long as it is null.
CREATE TABLE {p}outbox (
  owner_key      INTEGER NOT NULL REFERENCES {p}owners (owner_key) DEFERRABLE INITIALLY DEFERRED,
  effect_id      TEXT NOT NULL,
  accepted_at    INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  codec_version  INTEGER NOT NULL,
  bytes          BLOB NOT NULL,
  receipt_id     TEXT,
  PRIMARY KEY (owner_key, effect_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX {p}outbox_pending ON {p}outbox (owner_key, accepted_at, effect_id) WHERE receipt_id IS NULL;

CREATE TABLE {p}receipts (
  owner_key      INTEGER NOT NULL,
  receipt_id     TEXT NOT NULL,
  effect_id      TEXT NOT NULL,
  outcome        TEXT NOT NULL,
  recorded_at    INTEGER NOT NULL,
  fence          INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  codec_version  INTEGER NOT NULL,
  bytes          BLOB NOT NULL,
  PRIMARY KEY (owner_key, receipt_id),
  FOREIGN KEY (owner_key, effect_id) REFERENCES {p}outbox (owner_key, effect_id) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX {p}receipts_effect ON {p}receipts (owner_key, effect_id);
