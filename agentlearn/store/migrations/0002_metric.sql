-- Schema 2: numbers of a run under way, such as the loss of a training step. The latest row of (run, step, name) counts.
-- `step` counts updates from 1.
CREATE TABLE metric (run VARCHAR, step BIGINT, name VARCHAR, value DOUBLE, seq BIGINT);
