-- What was measured, by whom, and which object holds the record. The record files are the truth
-- and are written first; a row here says that the file is whole.

CREATE TABLE settings (
    name text PRIMARY KEY, -- `objects`: where the record files are
    value text NOT NULL
);

-- One execution of a campaign: what is a folder under results/ on one machine.
CREATE TABLE runs (
    run integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name ~ '^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$'),
    campaign text NOT NULL,
    started_at timestamptz NOT NULL,
    info jsonb NOT NULL, -- run.json
    stored_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX runs_of_campaign ON runs (campaign, started_at);

-- The files of a run that are no records: run.json, campaign.yaml, resumed-1.json ...
CREATE TABLE files (
    run integer NOT NULL REFERENCES runs,
    name text NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    bytes bigint NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (run, name)
);

-- What is dispatched as a whole: trials that are compared within one testbed.
CREATE TABLE blocks (
    run integer NOT NULL REFERENCES runs,
    block integer NOT NULL CHECK (block >= 0),
    trial_ids text[] NOT NULL, -- in the order of their measurement
    PRIMARY KEY (run, block)
);

-- Every record: a trial that is measured again is a new attempt, and none replaces another.
CREATE TABLE attempts (
    run integer NOT NULL REFERENCES runs,
    trial_id text NOT NULL CHECK (trial_id ~ '^[0-9a-f]{16}$'),
    attempt integer NOT NULL CHECK (attempt >= 1),
    status text NOT NULL CHECK (status IN ('finished', 'failed')),
    switch text NOT NULL,
    started_at timestamptz NOT NULL,
    block integer, -- null: measured without a pool
    testbed text, -- null: measured without a pool
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    bytes bigint NOT NULL CHECK (bytes > 0),
    columns_of text NOT NULL, -- which columns these are: digest of their names and places
    columns jsonb NOT NULL, -- of the table of a run, without those that the record lacks
    stored_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, trial_id, attempt),
    FOREIGN KEY (run, block) REFERENCES blocks
);
CREATE UNIQUE INDEX attempts_finish_once ON attempts (run, trial_id) WHERE status = 'finished';
CREATE INDEX attempts_of_switch ON attempts (switch, started_at);
