#!/bin/sh
# Run by mmdebstrap on the finished root folder $1: what no image of the project needs goes.
set -eu
root=$1
ln -sf python3.11 "$root/usr/bin/python3"
ln -sf python3 "$root/usr/bin/python"
# Maintainer scripts alone need these; nothing is installed into the images any more.
chroot "$root" dpkg --purge --force-all --no-triggers \
    adduser perl perl-modules-5.36 libperl5.36 usrmerge libfile-find-rule-perl \
    libnumber-compare-perl libtext-glob-perl libgdbm-compat4 util-linux-extra \
    >/dev/null 2>&1
rm -rf "$root"/var/cache/* "$root"/var/log/* "$root"/var/lib/apt/lists/* \
    "$root"/usr/share/locale "$root"/usr/share/man "$root"/usr/share/info \
    "$root"/usr/share/bash-completion "$root"/usr/share/zoneinfo/right
# Nothing in a pod may become another user.
find "$root" -xdev -type f -perm /6000 -exec chmod a-s {} +
find "$root/usr/share/doc" -mindepth 1 ! -name copyright ! -type d -delete
chroot "$root" python3 -c 'import asyncio, ctypes, hashlib, json, sqlite3, ssl'
