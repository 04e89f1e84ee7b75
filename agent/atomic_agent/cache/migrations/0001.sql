-- Names carry a prefix in front of `session_`; {p} is replaced by it (B12).
CREATE TABLE {p}session_meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- `deleted` 1: here, its tombstone is still to be sent; 2: everywhere.
-- One row a session: all that a list shows, so that a listing reads this table alone.
CREATE TABLE {p}session_sessions (
    key INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    wire BLOB,
    cwd TEXT NOT NULL,
    project TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    parent TEXT NOT NULL,
    internal INTEGER NOT NULL,
    header BLOB NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    name_stamp INTEGER NOT NULL DEFAULT -1,
    title TEXT NOT NULL DEFAULT '',
    title_stamp INTEGER NOT NULL DEFAULT -1,
    first_message TEXT NOT NULL DEFAULT '',
    first_pos INTEGER NOT NULL DEFAULT 4611686018427387904,
    summary TEXT NOT NULL DEFAULT '',
    summary_stamp INTEGER NOT NULL DEFAULT -1,
    messages INTEGER NOT NULL DEFAULT 0,
    next_pos INTEGER NOT NULL DEFAULT 0,
    newest_at INTEGER NOT NULL DEFAULT 0,
    newest_tag BLOB NOT NULL DEFAULT X'',
    newest_id TEXT,
    moved_leaf TEXT,
    moved_over INTEGER,
    moved_tag BLOB,
    deleted INTEGER NOT NULL DEFAULT 0,
    stale INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, id, scope)
);
-- `stale` 1: an entry changed its place, time or id, and the derived columns are to be made anew.
CREATE INDEX {p}session_stale ON {p}session_sessions (key) WHERE stale = 1;
CREATE UNIQUE INDEX {p}session_by_wire ON {p}session_sessions (wire) WHERE wire IS NOT NULL;
CREATE INDEX {p}session_by_prefix ON {p}session_sessions (substr(lower(id), 1, 8)) WHERE deleted = 0;
CREATE INDEX {p}session_without_wire ON {p}session_sessions (key) WHERE wire IS NULL;
CREATE INDEX {p}session_by_time ON {p}session_sessions (newest_at DESC) WHERE deleted = 0;

-- `codec` 1: raw is zstd. `received` is when the service first saw the entry, NULL before.
-- `sealed` 0: in no record yet.
CREATE TABLE {p}session_entries (
    row INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES {p}session_sessions (key),
    id TEXT NOT NULL,
    parent TEXT,
    pos INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    received INTEGER,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    loose INTEGER NOT NULL,
    file TEXT NOT NULL,
    sealed INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    raw BLOB NOT NULL,
    UNIQUE (session, id)
);
CREATE INDEX {p}session_entry_order ON {p}session_entries (session, file, pos);
CREATE INDEX {p}session_unsealed ON {p}session_entries (session, row) WHERE sealed = 0;

CREATE VIRTUAL TABLE {p}session_search USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61'
);

-- Records sealed and not yet acknowledged: a retry sends the same bytes.
CREATE TABLE {p}session_outbox (
    row INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    wire BLOB NOT NULL,
    entries BLOB NOT NULL,
    raw BLOB NOT NULL
);
CREATE INDEX {p}session_outbox_wire ON {p}session_outbox (wire, row);
-- Records that the service acknowledged and that were not yet met again in the log: one that never is has been
-- lost by it.
CREATE TABLE {p}session_sent (
    id BLOB PRIMARY KEY,
    wire BLOB NOT NULL
) WITHOUT ROWID;
-- Large sealed objects that the records in the outbox refer to.
CREATE TABLE {p}session_uploads (
    id BLOB PRIMARY KEY,
    wire BLOB NOT NULL,
    raw BLOB NOT NULL
) WITHOUT ROWID;
-- The last record of each (session, writer), own and others'.
CREATE TABLE {p}session_chains (
    wire BLOB NOT NULL,
    writer BLOB NOT NULL,
    device BLOB NOT NULL,
    n INTEGER NOT NULL,
    last BLOB NOT NULL,
    PRIMARY KEY (wire, writer)
) WITHOUT ROWID;
-- Records that did not verify or open: reported, never shown.
CREATE TABLE {p}session_quarantine (
    id BLOB PRIMARY KEY,
    wire BLOB NOT NULL,
    device BLOB NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;
-- Sessions that are dead for ever, known here or not.
-- `told` 0: the log was replaced since, and has to be told again.
CREATE TABLE {p}session_tombstones (
    wire BLOB PRIMARY KEY,
    told INTEGER NOT NULL
) WITHOUT ROWID;

-- What a turn in flight has completed so far; becomes entries when the turn completes (A1). `session` is
-- the row it continues, 0 while there is none; `name` the session it will be in (agent/scope/id).
CREATE TABLE {p}session_turns (
    turn TEXT NOT NULL,
    part INTEGER NOT NULL,
    name TEXT NOT NULL,
    session INTEGER NOT NULL,
    project TEXT NOT NULL,
    raw BLOB NOT NULL,
    PRIMARY KEY (turn, part)
) WITHOUT ROWID;
-- Which living process writes which session.
CREATE TABLE {p}session_claims (
    name TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;

-- How far each agent's file was read.
CREATE TABLE {p}session_files (
    path TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    check_size INTEGER NOT NULL,
    check_hash BLOB NOT NULL,
    state BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX {p}session_file_session ON {p}session_files (session);

-- What the files of earlier sessions said when each had this size, time and inode, so that they need not be read
-- again for a list: `row` what a list shows, also that it is no session; `said` the text it is searched in.
CREATE TABLE {p}session_earlier (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    row BLOB NOT NULL,
    said BLOB NOT NULL
) WITHOUT ROWID;
-- Which project their folders were found to be in, and what that was told from.
CREATE TABLE {p}session_earlier_projects (
    cwd TEXT PRIMARY KEY,
    mark TEXT NOT NULL,
    project TEXT NOT NULL
) WITHOUT ROWID;
-- Earlier sessions that their files do not stand for any more: copied in or deleted. `place` is empty for a UUID,
-- else a project, and each folder its files name: a folder's project may become another one.
CREATE TABLE {p}session_hidden (
    id TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (id, place)
) WITHOUT ROWID;
