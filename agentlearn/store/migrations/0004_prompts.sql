-- Schema 4: the prompts that asked for a proposal or a summary, as JSON of their references. NULL in older rows.
ALTER TABLE proposal ADD COLUMN prompts VARCHAR;
ALTER TABLE summary ADD COLUMN prompts VARCHAR;
