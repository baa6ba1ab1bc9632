-- Schema 9: the strangers who could have shaped a lesson, as JSON; NULL for none.
ALTER TABLE experience ADD COLUMN strangers VARCHAR;
