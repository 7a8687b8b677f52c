-- Campaigns that decide in a pool how many blocks they take: each of their testbeds measures blocks
-- of its own, one after the other, until its comparisons are decided or its time is over.

ALTER TABLE pool_campaigns ADD COLUMN testbeds text[] NOT NULL DEFAULT '{}'; -- empty: any, a set number
ALTER TABLE pool_campaigns ADD COLUMN trials jsonb;       -- with testbeds: of the first block at each point
ALTER TABLE pool_blocks ADD COLUMN only_on text;          -- the one testbed that may measure it; null: any
ALTER TABLE pool_blocks ADD COLUMN queued_at timestamptz NOT NULL DEFAULT clock_timestamp();
