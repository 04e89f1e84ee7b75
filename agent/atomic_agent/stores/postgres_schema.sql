-- {p} is the prefix that stands in front of `session_`. Text is bytea (postgres_text.py); times are ms.
CREATE TABLE "{p}session_meta" (
    name text PRIMARY KEY,
    value bigint NOT NULL
);
-- One row a session: all that a list shows. `identity` stands for agent, id and scope, `beginning` for the first
-- eight characters of the id in lower case.
CREATE TABLE "{p}session_sessions" (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity bytea NOT NULL,
    agent bytea NOT NULL,
    id bytea NOT NULL,
    scope bytea NOT NULL,
    beginning bytea NOT NULL,
    cwd bytea NOT NULL,
    project bytea NOT NULL,
    created_at bigint NOT NULL,
    parent bytea NOT NULL,
    internal boolean NOT NULL,
    header bytea NOT NULL,
    name bytea NOT NULL DEFAULT '',
    name_stamp bigint NOT NULL DEFAULT -1,
    title bytea NOT NULL DEFAULT '',
    title_stamp bigint NOT NULL DEFAULT -1,
    first_message bytea NOT NULL DEFAULT '',
    first_pos bigint NOT NULL DEFAULT 4611686018427387904,
    summary bytea NOT NULL DEFAULT '',
    summary_stamp bigint NOT NULL DEFAULT -1,
    messages bigint NOT NULL DEFAULT 0,
    next_pos bigint NOT NULL DEFAULT 0,
    newest_at bigint NOT NULL DEFAULT 0,
    newest_tag bytea NOT NULL DEFAULT '',
    newest_id bytea,
    sorted_at bigint GENERATED ALWAYS AS (CASE newest_at WHEN 0 THEN created_at ELSE newest_at END) STORED,
    moved_leaf bytea,
    moved_over bigint,
    moved_tag bytea,
    CONSTRAINT "{p}session_once" UNIQUE (identity)
);
CREATE INDEX "{p}session_by_time" ON "{p}session_sessions" (sorted_at DESC, newest_tag DESC);
-- Hash indexes, which take values of any length: paths and ids are other programs' text.
CREATE INDEX "{p}session_by_project" ON "{p}session_sessions" USING hash (project);
CREATE INDEX "{p}session_by_cwd" ON "{p}session_sessions" USING hash (cwd);
CREATE INDEX "{p}session_by_id" ON "{p}session_sessions" USING hash (id);
CREATE INDEX "{p}session_by_beginning" ON "{p}session_sessions" USING hash (beginning);

-- `decides`: a user or assistant message. `spoken`: has text that a search looks at; `words` are its words, NULL when
-- they are too many.
CREATE TABLE "{p}session_entries" (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL REFERENCES "{p}session_sessions" (key) ON DELETE CASCADE,
    id bytea NOT NULL,
    parent bytea,
    pos bigint NOT NULL,
    stamp bigint NOT NULL,
    loose boolean NOT NULL,
    decides boolean NOT NULL,
    spoken boolean NOT NULL,
    words tsvector,
    size bigint NOT NULL,
    raw bytea NOT NULL
);
CREATE UNIQUE INDEX "{p}session_entry_once" ON "{p}session_entries" (session, sha256(id));
CREATE INDEX "{p}session_entry_order" ON "{p}session_entries" (session, pos, stamp);
CREATE INDEX "{p}session_words" ON "{p}session_entries" USING gin (words);
CREATE INDEX "{p}session_wordy" ON "{p}session_entries" (session) WHERE spoken AND words IS NULL;

-- What turns in flight have completed so far. `target` is the session it will be in, `source` the one it goes on from.
CREATE TABLE "{p}session_turns" (
    turn bytea NOT NULL,
    part integer NOT NULL,
    target bytea NOT NULL,
    source bytea,
    body bytea NOT NULL,
    PRIMARY KEY (turn, part)
);
-- Which living process writes which session.
CREATE TABLE "{p}session_claims" (
    session bytea NOT NULL,
    host bytea NOT NULL,
    pid bigint NOT NULL,
    started bytea NOT NULL,
    since bigint NOT NULL,
    CONSTRAINT "{p}session_claimed_once" PRIMARY KEY (session)
);
INSERT INTO "{p}session_meta" (name, value) VALUES ('schema', 1);
