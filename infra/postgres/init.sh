#!/bin/sh
# Runs once, when the data folder is new. Passwords come from secret files and go in by stdin: never in arguments, where
# every process on the host could read them.
set -eu
{
    printf "\\set owner_password '%s'\n" "$(cat /run/secrets/postgres_owner_password)"
    printf "\\set web_password '%s'\n" "$(cat /run/secrets/postgres_web_password)"
    cat /etc/atomic/roles.sql
} | psql --no-psqlrc --quiet --username "$POSTGRES_USER" --dbname postgres
