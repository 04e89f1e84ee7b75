-- The tables of accounts, devices, the log and shares. Every key begins with the account; token, invite, mailbox and
-- share are found without one. All times are ms since 1970 UTC, all ids raw bytes.

CREATE TABLE account (
    account    bytea PRIMARY KEY CHECK (length(account) = 16),
    head       bigint NOT NULL DEFAULT 0,
    chain      bytea NOT NULL DEFAULT '\x00000000000000000000000000000000' CHECK (length(chain) = 16),
    bytes      bigint NOT NULL DEFAULT 0,
    quota      bigint NOT NULL,
    allowance  double precision NOT NULL, -- pushes left, as of allowed_at: a token bucket
    allowed_at bigint NOT NULL,
    created_at bigint NOT NULL
) WITH (fillfactor = 70); -- locked and updated by every push: room for updates inside the page

-- Bodies and signatures as the devices signed them. device is derived from these rows.
CREATE TABLE ledger (
    account   bytea NOT NULL REFERENCES account,
    n         integer NOT NULL,
    body      bytea NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (account, n)
);

CREATE TABLE device (
    account  bytea NOT NULL REFERENCES account,
    device   bytea NOT NULL CHECK (length(device) = 16),
    role     text NOT NULL CHECK (role IN ('device', 'recovery')),
    sign_key bytea NOT NULL CHECK (length(sign_key) = 32),
    added    integer NOT NULL,
    removed  integer,
    PRIMARY KEY (account, device)
);

CREATE TABLE wrap (
    account    bytea NOT NULL,
    device     bytea NOT NULL,
    generation bigint NOT NULL,
    made_by    bytea NOT NULL,
    sealed     bytea NOT NULL,
    signature  bytea NOT NULL,
    PRIMARY KEY (account, device, generation),
    FOREIGN KEY (account, device) REFERENCES device
);

CREATE TABLE token (
    sha256     bytea PRIMARY KEY,
    account    bytea NOT NULL,
    device     bytea NOT NULL,
    expires_at bigint NOT NULL,
    FOREIGN KEY (account, device) REFERENCES device
);
CREATE INDEX token_device ON token (account, device, expires_at);

CREATE TABLE invite (
    sha256     bytea PRIMARY KEY,
    expires_at bigint NOT NULL,
    used_by    bytea
);

CREATE TABLE mailbox (
    mailbox    bytea PRIMARY KEY CHECK (length(mailbox) = 16),
    account    bytea NOT NULL REFERENCES account,
    expires_at bigint NOT NULL
);
CREATE INDEX mailbox_account ON mailbox (account);

CREATE TABLE mailbox_slot (
    mailbox bytea NOT NULL REFERENCES mailbox ON DELETE CASCADE,
    slot    text NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (mailbox, slot)
);

-- The log. A row is never removed, only emptied (body null) when its session dies. The unique constraints are guards:
-- the push decides under the account's lock, and they must never fire. No foreign keys here: the lock is
-- their check, and a trigger per row of a push is not free.
CREATE TABLE event (
    account     bytea NOT NULL,
    seq         bigint NOT NULL,
    kind        smallint NOT NULL,
    session     bytea NOT NULL,
    id          bytea NOT NULL,
    device      bytea NOT NULL,
    writer      bytea NOT NULL,
    n           bigint NOT NULL,
    newest_at   bigint NOT NULL,
    newest_tag  bytea NOT NULL,
    size        integer NOT NULL,
    body        bytea,
    chain       bytea NOT NULL,
    received_at bigint NOT NULL,
    PRIMARY KEY (account, seq),
    CONSTRAINT event_id UNIQUE (account, id),
    CONSTRAINT event_place UNIQUE (account, session, writer, n)
);
CREATE INDEX event_session ON event (account, session, seq);
ALTER TABLE event ALTER COLUMN body SET STORAGE EXTERNAL; -- sealed bytes do not compress

-- newest_* name the newest message over all copies; received_at is when a record first named it. skewed: some record
-- named a message more than five minutes ahead of its arrival, so earlier namings must be looked up.
CREATE TABLE session (
    account     bytea NOT NULL,
    session     bytea NOT NULL CHECK (length(session) = 16),
    first_seq   bigint NOT NULL,
    last_seq    bigint NOT NULL,
    newest_at   bigint NOT NULL,
    newest_tag  bytea NOT NULL,
    received_at bigint NOT NULL,
    records     integer NOT NULL,
    bytes       bigint NOT NULL,
    skewed      boolean NOT NULL,
    dead        boolean NOT NULL,
    PRIMARY KEY (account, session)
) WITH (fillfactor = 80);

CREATE TABLE writer (
    account bytea NOT NULL,
    writer  bytea NOT NULL CHECK (length(writer) = 16),
    device  bytea NOT NULL,
    PRIMARY KEY (account, writer)
);

-- How far a writer has come in a session.
CREATE TABLE progress (
    account bytea NOT NULL,
    session bytea NOT NULL,
    writer  bytea NOT NULL,
    last_n  bigint NOT NULL,
    last_id bytea NOT NULL,
    PRIMARY KEY (account, session, writer)
) WITH (fillfactor = 80);

-- Objects in the blob store, named by their SHA-256; session is set for purpose blob. dropped_at: nobody may see it any
-- more, and its bytes wait to be removed from the store.
CREATE TABLE object (
    account    bytea NOT NULL REFERENCES account,
    purpose    text NOT NULL CHECK (purpose IN ('blob', 'share')),
    id         bytea NOT NULL CHECK (length(id) = 32),
    session    bytea,
    size       bigint NOT NULL,
    created_at bigint NOT NULL,
    dropped_at bigint,
    PRIMARY KEY (account, purpose, id)
);
CREATE INDEX object_session ON object (account, session) WHERE session IS NOT NULL;
CREATE INDEX object_dropped ON object (account) WHERE dropped_at IS NOT NULL;

CREATE TABLE share (
    share      bytea PRIMARY KEY CHECK (length(share) = 16),
    account    bytea NOT NULL REFERENCES account,
    kind       text NOT NULL CHECK (kind IN ('sealed', 'public')),
    object     bytea NOT NULL,
    size       bigint NOT NULL,
    revision   integer NOT NULL,
    note       bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    views_left integer CHECK (views_left >= 0),
    revoked_at bigint
);
CREATE INDEX share_account ON share (account, created_at);
CREATE INDEX share_object ON share (account, object);
CREATE INDEX share_expires ON share (expires_at);

-- atomic_web holds no right it does not use: the log's rows cannot be removed, the ledger cannot be changed.
GRANT SELECT, INSERT ON account, ledger, wrap, event, session, writer, progress TO atomic_web;
GRANT UPDATE (head, chain, bytes, allowance, allowed_at) ON account TO atomic_web;
GRANT UPDATE (body) ON event TO atomic_web;
GRANT UPDATE ON session, progress TO atomic_web;
GRANT SELECT, INSERT, UPDATE (removed) ON device TO atomic_web;
GRANT SELECT, INSERT, DELETE ON token, mailbox, mailbox_slot TO atomic_web;
GRANT SELECT, INSERT, UPDATE (used_by), DELETE ON invite TO atomic_web;
GRANT SELECT, INSERT, UPDATE (dropped_at, created_at), DELETE ON object TO atomic_web;
GRANT SELECT, INSERT, UPDATE ON share TO atomic_web;
