"""The browser: finding a Chromium, a pool of fresh contexts on it, and a walk's acts and page views."""
