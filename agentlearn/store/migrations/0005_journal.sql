-- Schema 5: the journal is the SQLite file journal.sqlite. `commit_log.journal` is the last entry of it that is in the
-- database as of that commit; NULL before schema 5. All files of a store carry the same identity.
ALTER TABLE commit_log ADD COLUMN journal BIGINT;
CREATE TABLE store_identity (id VARCHAR);
