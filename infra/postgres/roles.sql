-- The two roles and the database. Run once by the superuser, by init.sh when the data folder is new, or by hand against a
-- managed Postgres: psql -v owner_password=... -v web_password=... -f roles.sql
--
-- atomic_owner owns the schema and runs migrations. atomic_web is what the replicas log in as: it can neither change the
-- schema nor get round row-level security. With a superuser in its place every policy would be vacuous.
\set ON_ERROR_STOP on
set client_min_messages = warning;

create role atomic_owner login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'owner_password';
create role atomic_web login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'web_password';

-- A request that takes longer than this hangs on a lock or on a lost client; the agent tries again by itself.
alter role atomic_web set statement_timeout = '30s';
alter role atomic_web set lock_timeout = '10s';
alter role atomic_web set idle_in_transaction_session_timeout = '30s';

create database atomic owner atomic_owner encoding 'UTF8' template template0;
revoke all on database atomic from public;
grant connect on database atomic to atomic_web;

\connect atomic
alter schema public owner to atomic_owner;
revoke all on schema public from public;
grant usage on schema public to atomic_web;
