-- Schema 7: live traffic. `live` has one row per recorded rollout; `name` is the recorder's. `feedback` has all that was
-- said about rollouts or episodes, also about rollouts that the store does not have (yet). A row is never changed: the
-- last reward counts. A demonstration becomes a rollout of its own, whose id is that of the feedback.
CREATE TABLE live (
  rollout VARCHAR,
  name VARCHAR,
  episode VARCHAR,
  seq BIGINT
);
CREATE TABLE feedback (
  id VARCHAR,
  name VARCHAR,
  rollout VARCHAR,
  episode VARCHAR,
  reward DOUBLE,
  reason VARCHAR USING COMPRESSION zstd,
  demonstration VARCHAR USING COMPRESSION zstd,
  who VARCHAR,
  given_at TIMESTAMPTZ,
  seq BIGINT
);
-- What else the program that gave the task knows about it, as JSON; NULL or empty for nothing.
ALTER TABLE task ADD COLUMN extra VARCHAR;
