"""The browser: which Chromium is used, a pool of fresh contexts on it, and the walker's acts and views of pages."""
