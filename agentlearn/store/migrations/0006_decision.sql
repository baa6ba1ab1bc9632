-- Schema 6: what a person decided about a lesson that waited for one. A row is never changed. `lesson_key` has the words
-- of the lesson in lower case. An approval names the library, its new version and the experience that it made.
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
