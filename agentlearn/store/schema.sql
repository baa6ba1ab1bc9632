-- The tables of a store. Rows are only added; what is erased is left out of a new database file (`store.erasure`). So
-- there are no foreign keys, no secondary indexes, and a primary key only where a second copy is possible. `seq` is the
-- group commit that a row came with (commit_log.seq). Times are UTC. Text columns hold text as agentlearn.store.text
-- writes it. `database.SCHEMA` is the number of this schema: raise it with every change here once a version was released.

-- One row: the number of the schema, and what made the database.
CREATE TABLE schema_version (version INTEGER, made_at TIMESTAMPTZ, agentlearn VARCHAR, duckdb VARCHAR);

-- One row: the identity of the store, which all its files carry.
CREATE TABLE store_identity (id VARCHAR);

-- One row per group commit: the cursor from which a reader can go on, and the proof that nothing acknowledged is gone.
-- `journal` is the last entry of the file journal.sqlite that is in the database as of that commit.
CREATE TABLE commit_log (seq BIGINT, committed_at TIMESTAMPTZ, n_rows INTEGER, journal BIGINT);

-- Texts named by their hash: prompts.
CREATE TABLE blob (
  hash VARCHAR PRIMARY KEY,
  kind VARCHAR,
  name VARCHAR,
  body VARCHAR USING COMPRESSION zstd,
  seq BIGINT
);

-- Events of runs; the latest is the run's state.
CREATE TABLE run_event (
  run VARCHAR,
  domain VARCHAR,
  kind VARCHAR,
  state VARCHAR,
  model VARCHAR,
  simulated BOOLEAN,
  seed BIGINT,
  settings VARCHAR USING COMPRESSION zstd,
  package_version VARCHAR,
  happened_at TIMESTAMPTZ,
  report VARCHAR USING COMPRESSION zstd,
  seq BIGINT
);

-- `start` is where the work on a task begins, `path` the places on a known way to its answer. `extra` is what else the
-- program that gave the task knows about it, as JSON; empty for nothing.
CREATE TABLE task (
  id VARCHAR PRIMARY KEY,
  domain VARCHAR,
  problem VARCHAR USING COMPRESSION zstd,
  answer VARCHAR,
  family VARCHAR,
  split VARCHAR,
  source VARCHAR,
  start VARCHAR,
  path VARCHAR[],
  extra VARCHAR,
  seq BIGINT
);

-- One row per rollout. (run, phase, task, g, attempt) is its logical key, and id is the hash of that key. `offered` are
-- the lessons that retrieval chose for it, masked ones included; NULL: all lessons of the version. `weights_step` counts
-- the optimiser steps before the weights that it was sampled from; NULL outside training.
CREATE TABLE trajectory (
  id VARCHAR PRIMARY KEY,
  run VARCHAR,
  phase VARCHAR,
  batch INTEGER,
  task VARCHAR,
  g INTEGER,
  attempt INTEGER,
  seed BIGINT,
  model VARCHAR,
  library_version VARCHAR,
  masked VARCHAR[],
  offered VARCHAR[],
  arm VARCHAR,
  weights_step BIGINT,
  temperature DOUBLE,
  outcome VARCHAR,
  failure_code VARCHAR,
  failure_message VARCHAR,
  failure_boundary VARCHAR,
  verdict VARCHAR,
  reward DOUBLE,
  reason VARCHAR,
  answer VARCHAR,
  requests BIGINT,
  tokens_in BIGINT,
  tokens_cached BIGINT,
  tokens_out BIGINT,
  cost_usd DOUBLE,
  started_at TIMESTAMPTZ,
  seconds DOUBLE,
  prompts VARCHAR,
  isolation VARCHAR,
  seq BIGINT
);

-- The texts of a trajectory: our steps, and the agent framework's own messages for replay. Plain text, not the JSON
-- type, which refuses the lone surrogates that a model can write.
CREATE TABLE trajectory_body (
  rollout VARCHAR,
  format VARCHAR,
  steps VARCHAR USING COMPRESSION zstd,
  messages VARCHAR USING COMPRESSION zstd,
  seq BIGINT
);

-- One row per step, without its text. `call` is the journal's call for a model turn, the tool call's id for a result;
-- `asked` are the tools that a model turn called.
CREATE TABLE step (
  rollout VARCHAR,
  ordinal INTEGER,
  kind VARCHAR,
  call VARCHAR,
  tool VARCHAR,
  ok BOOLEAN,
  error VARCHAR,
  asked VARCHAR[],
  tokens_in BIGINT,
  tokens_cached BIGINT,
  tokens_out BIGINT,
  seconds DOUBLE,
  finish VARCHAR,
  seq BIGINT
);

-- Every answered model call and tool result, committed before it is used. No key: the first row of an id counts.
CREATE TABLE journal (
  id VARCHAR,
  run VARCHAR,
  stage VARCHAR,
  unit VARCHAR,
  ordinal INTEGER,
  kind VARCHAR,
  name VARCHAR,
  ok BOOLEAN,
  error VARCHAR,
  response VARCHAR USING COMPRESSION zstd,
  request_hash VARCHAR,
  tokens_in BIGINT,
  tokens_cached BIGINT,
  tokens_out BIGINT,
  cost_usd DOUBLE,
  attempts INTEGER,
  seconds DOUBLE,
  recorded_at TIMESTAMPTZ,
  seq BIGINT
);

-- The latest row of an id counts. `prompts` are the prompts that asked for it, as JSON of their references.
CREATE TABLE summary (
  id VARCHAR,
  run VARCHAR,
  rollout VARCHAR,
  steps VARCHAR USING COMPRESSION zstd,
  raw VARCHAR USING COMPRESSION zstd,
  library_version VARCHAR,
  prompts VARCHAR,
  seq BIGINT
);

-- Every proposal with its end. `evidence` are rollouts, `rests_on` and `folded_into` proposals of the same batch, and
-- `prompts` the prompts that asked for it. The latest row of (run, phase, batch, id) counts.
CREATE TABLE proposal (
  id VARCHAR,
  run VARCHAR,
  phase VARCHAR,
  batch INTEGER,
  stage VARCHAR,
  ordinal INTEGER,
  op VARCHAR,
  operation VARCHAR,
  refusal VARCHAR,
  raw VARCHAR USING COMPRESSION zstd,
  task VARCHAR,
  evidence VARCHAR[],
  rests_on VARCHAR[],
  ended VARCHAR,
  ending VARCHAR,
  experience VARCHAR,
  folded_into VARCHAR[],
  code VARCHAR,
  flags VARCHAR[],
  prompts VARCHAR,
  seq BIGINT
);

-- What a person decided about a lesson that waited for one. A row is never changed. `lesson_key` has the words of the
-- lesson in lower case. An approval names the library, its new version and the experience that it made.
CREATE TABLE decision (
  run VARCHAR,
  phase VARCHAR,
  batch INTEGER,
  proposal VARCHAR,
  verdict VARCHAR,
  lesson_key VARCHAR,
  who VARCHAR,
  note VARCHAR,
  decided_at TIMESTAMPTZ,
  library VARCHAR,
  version VARCHAR,
  experience VARCHAR,
  seq BIGINT
);

-- `strangers` are those who could have shaped the lesson, as JSON; NULL for none.
CREATE TABLE experience (
  id VARCHAR PRIMARY KEY,
  lesson VARCHAR,
  tags VARCHAR[],
  origin VARCHAR,
  parents VARCHAR[],
  library_version VARCHAR,
  strangers VARCHAR,
  seq BIGINT
);

-- `experiences` are ids, in the order in which the version shows them. `joined` is the other parent of a joined version,
-- `withheld` the lessons that a version keeps and does not show, `files` the files beside it, as JSON; NULL for none.
CREATE TABLE library_version (
  version VARCHAR PRIMARY KEY,
  parent VARCHAR,
  joined VARCHAR,
  experiences VARCHAR[],
  withheld VARCHAR,
  saved_at TIMESTAMPTZ,
  run VARCHAR,
  seq BIGINT,
  document VARCHAR,
  files VARCHAR
);

-- Numbers of a run under way, such as the loss of a training step. The latest row of (run, step, name) counts. `step`
-- counts updates from 1.
CREATE TABLE metric (run VARCHAR, step BIGINT, name VARCHAR, value DOUBLE, seq BIGINT);

-- Live traffic: one row per recorded rollout; `name` is the recorder's, `user_name` the person whose conversation it is.
-- `personal` is the number of values of personal data by kind, as JSON; NULL for none.
CREATE TABLE live (
  rollout VARCHAR,
  name VARCHAR,
  episode VARCHAR,
  user_name VARCHAR,
  personal VARCHAR,
  seq BIGINT
);

-- All that was said about rollouts or episodes, also about rollouts that the store does not have (yet). A row is never
-- changed: the last reward counts. A demonstration becomes a rollout of its own, whose id is that of the feedback. `given`
-- is the reward in words where it was given on another scale than 0 to 1; NULL in rows from before that column.
CREATE TABLE feedback (
  id VARCHAR,
  name VARCHAR,
  rollout VARCHAR,
  episode VARCHAR,
  reward DOUBLE,
  reason VARCHAR USING COMPRESSION zstd,
  demonstration VARCHAR USING COMPRESSION zstd,
  who VARCHAR,
  personal VARCHAR,
  given_at TIMESTAMPTZ,
  seq BIGINT,
  given VARCHAR
);
