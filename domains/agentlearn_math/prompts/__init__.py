"""The domain's prompt files; a released one is never edited, the next version is added."""
