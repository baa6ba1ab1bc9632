-- Schema 3: where the work on a task begins, and the places on a known way to its answer.
ALTER TABLE task ADD COLUMN start VARCHAR;
ALTER TABLE task ADD COLUMN path VARCHAR[];
