-- Schema 1. Append-only: no row is ever changed or taken out, so there are no foreign keys, no secondary indexes, and a
-- primary key only where a second copy is possible. `seq` is the group commit that a row came with (commit_log.seq).
-- Times are UTC. Text columns hold text as agentlearn.store.text writes it.

CREATE TABLE schema_migration (
  version INTEGER PRIMARY KEY,
  name VARCHAR,
  checksum VARCHAR,
  applied_at TIMESTAMPTZ,
  agentlearn VARCHAR,
  duckdb VARCHAR
);

-- One row per group commit: the cursor from which a reader can go on, and the proof that nothing acknowledged is gone.
CREATE TABLE commit_log (seq BIGINT, committed_at TIMESTAMPTZ, n_rows INTEGER);

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

CREATE TABLE task (
  id VARCHAR PRIMARY KEY,
  domain VARCHAR,
  problem VARCHAR USING COMPRESSION zstd,
  answer VARCHAR,
  family VARCHAR,
  split VARCHAR,
  source VARCHAR,
  seq BIGINT
);

-- One row per rollout. (run, phase, task, g, attempt) is its logical key, and id is the hash of that key.
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
  arm VARCHAR,
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
  schema_version INTEGER,
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
  schema_version INTEGER,
  seq BIGINT
);

-- The latest row of an id counts.
CREATE TABLE summary (
  id VARCHAR,
  run VARCHAR,
  rollout VARCHAR,
  steps VARCHAR USING COMPRESSION zstd,
  raw VARCHAR USING COMPRESSION zstd,
  library_version VARCHAR,
  seq BIGINT
);

-- Every proposal with its end. `evidence` are rollouts, `rests_on` and `folded_into` proposals of the same batch. The
-- latest row of (run, phase, batch, id) counts.
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
  seq BIGINT
);

CREATE TABLE experience (
  id VARCHAR PRIMARY KEY,
  lesson VARCHAR,
  tags VARCHAR[],
  origin VARCHAR,
  parents VARCHAR[],
  library_version VARCHAR,
  seq BIGINT
);

-- `experiences` are ids, in the order in which the version shows them.
CREATE TABLE library_version (
  version VARCHAR PRIMARY KEY,
  parent VARCHAR,
  experiences VARCHAR[],
  saved_at TIMESTAMPTZ,
  run VARCHAR,
  seq BIGINT
);

CREATE TABLE embedding (experience VARCHAR, embedder VARCHAR, vector FLOAT[], seq BIGINT);
