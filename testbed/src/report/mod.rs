//! Results: `result.json`, a table for people, and plots.
