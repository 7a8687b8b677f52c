-- Since when a testbed has been in its state: a campaign waits so long for one that cannot measure.

ALTER TABLE pool_testbeds ADD COLUMN state_since timestamptz NOT NULL DEFAULT clock_timestamp();

CREATE FUNCTION note_state_since() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.state_since := clock_timestamp(); RETURN NEW; END';

CREATE TRIGGER state_since BEFORE UPDATE OF state ON pool_testbeds FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION note_state_since();
