#!/bin/sh
# Run in the image's build: the simulated engine into /app, the command `vllm`, bytecode of all.
set -eu
mkdir -p /app/tests
cp -R --preserve=mode,timestamps /context/operator/pd_shared /app/
cp -R --preserve=mode,timestamps /context/tests/engine_sim /app/tests/
cp --preserve=timestamps /context/images/engine-sim/vllm /usr/local/bin/vllm
chmod 755 /usr/local/bin/vllm
find /app -name __pycache__ -prune -exec rm -rf {} +
chmod -R a+rX,go-w /app
standard=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python3 -m compileall -qq -j 0 -x '/(test|tests/test|idlelib|lib2to3|dist-packages|site-packages)/' \
    "$standard" /app
