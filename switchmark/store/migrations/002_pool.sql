-- The pool: campaigns that were handed in, their blocks, the testbeds, and what happened.
--
-- Every time in here is the database's own (clock_timestamp()): no host's clock decides anything.

CREATE TABLE pool_campaigns (
    run_name text PRIMARY KEY REFERENCES runs (name),
    run integer NOT NULL UNIQUE REFERENCES runs,
    campaign text NOT NULL,
    submission text NOT NULL,               -- digest of all that was asked: equal ones are one
    definition jsonb NOT NULL,
    baseline boolean NOT NULL DEFAULT true, -- whether the bare wire is measured where it is not known
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'finished', 'cancelled')),
    submitted_by text NOT NULL DEFAULT '',
    submitted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz
);

-- Two laptops that hand in the same campaign at the same moment get one.
CREATE UNIQUE INDEX pool_campaigns_open ON pool_campaigns (submission) WHERE state = 'open';
CREATE INDEX pool_campaigns_by_submission ON pool_campaigns (submission, submitted_at DESC);

CREATE TABLE pool_testbeds (
    name text PRIMARY KEY,
    state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'draining', 'drained', 'out')),
    reason text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,        -- counts the agents that it has had: the last one counts
    place text NOT NULL DEFAULT '',         -- host, boot and state directory of that one
    agent text NOT NULL DEFAULT '',         -- the same in words for people
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,                 -- until when it is the only one; NULL: it has left
    clock_ahead_s double precision,         -- of the database's; told, never used
    profile jsonb,                          -- what it was when it was taken in: versions, processor
    wire_pps jsonb NOT NULL DEFAULT '[]',   -- what the bare wire carried then
    checks integer NOT NULL DEFAULT 0,      -- that it failed in a row
    check_at timestamptz                    -- of one that is out: when it may try again
);

CREATE TABLE pool_blocks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_name text NOT NULL REFERENCES pool_campaigns,
    number integer NOT NULL,
    trials jsonb NOT NULL,                  -- in the order in which they are measured
    lease_s double precision NOT NULL,      -- how long a lease is, from each word of its holder
    state text NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'leased', 'done', 'cancelled', 'failed')),
    testbed text,                           -- who has it, or had it last
    token bigint NOT NULL DEFAULT 0,        -- the fencing token: counts the leases given
    lost integer NOT NULL DEFAULT 0,        -- leases that nobody gave back
    unable text[] NOT NULL DEFAULT '{}',    -- testbeds that cannot measure it
    expires_at timestamptz,
    UNIQUE (run_name, number)
);

CREATE INDEX pool_blocks_open ON pool_blocks (id) WHERE state IN ('queued', 'leased');
CREATE INDEX pool_blocks_open_of ON pool_blocks (run_name) WHERE state IN ('queued', 'leased');
CREATE INDEX pool_blocks_held ON pool_blocks (testbed) WHERE state IN ('queued', 'leased');

CREATE TABLE pool_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    testbed text,
    run_name text,
    block bigint,
    words text NOT NULL
);

CREATE INDEX pool_events_of_run ON pool_events (run_name, id);

-- Contenders are compared within a testbed. Where a block that was begun is measured anew on another
-- one, the records of the first are kept, and do not count.
ALTER TABLE attempts ADD COLUMN superseded boolean NOT NULL DEFAULT false;
DROP INDEX attempts_finish_once;
CREATE UNIQUE INDEX attempts_finish_once ON attempts (run, trial_id)
    WHERE status = 'finished' AND NOT superseded;
CREATE INDEX attempts_of_block ON attempts (run, block) WHERE block IS NOT NULL;
