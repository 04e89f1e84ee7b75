-- Workflow runs share the sessions' file (B1); {p} is replaced by the prefix that stands before their names too.
CREATE TABLE {p}wf_meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- `raw` is the whole record, `codec` 1: zstd; the other columns are what lists are made from.
CREATE TABLE {p}wf_runs (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    raw BLOB NOT NULL
);
CREATE INDEX {p}wf_runs_by_time ON {p}wf_runs (updated_at DESC, id);
CREATE INDEX {p}wf_runs_by_project ON {p}wf_runs (project, updated_at DESC, id);

CREATE TABLE {p}wf_stages (
    run TEXT NOT NULL REFERENCES {p}wf_runs (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    codec INTEGER NOT NULL,
    raw BLOB NOT NULL,
    UNIQUE (run, id)
);
