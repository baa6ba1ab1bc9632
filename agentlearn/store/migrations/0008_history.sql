-- Schema 8: the other parent of a joined version, and the lessons that a version keeps and does not show, as JSON.
-- `offered` are the lessons that retrieval chose for a rollout, masked ones included; NULL: all lessons of the version.
ALTER TABLE library_version ADD COLUMN joined VARCHAR;
ALTER TABLE library_version ADD COLUMN withheld VARCHAR;
ALTER TABLE trajectory ADD COLUMN offered VARCHAR[];
