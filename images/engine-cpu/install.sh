#!/bin/sh
# Run in the image's build: vLLM into /opt/engine, the model into /models/tiny, and one start that
# leaves the engine's caches. The checkout is at /context.
set -eu
here=/context/images/engine-cpu
mkdir -p /opt/engine /models
if [ -d /context/prepared ]; then
    cp -R --preserve=mode,timestamps /context/prepared/. /opt/engine/
else
    python3 -m pip install --quiet --no-cache-dir --root-user-action ignore --target /tmp/uv uv==0.13.9
    python3 "$here/fetch.py" --uv /tmp/uv/bin/uv --target /opt/engine
    python3 "$here/slim.py" /opt/engine
    rm -rf /tmp/uv "$HOME/.cache"
fi
rm -f /opt/engine/.lock
cp -R "$here/site/." /opt/engine/
cp "$here/vllm" /usr/local/bin/vllm
chmod 755 /usr/local/bin/vllm
chmod -R a+rX,go-w /opt/engine
standard=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python3 -m compileall -qq -j 0 -x '/(test|tests|idlelib|lib2to3|dist-packages|site-packages)/' \
    "$standard" /opt/engine || true # some files are templates, not Python
python3 "$here/make_model.py" /models/tiny
python3 "$here/first_start.py" /models/tiny
chmod -R a+rX,go-w /models "$VLLM_CACHE_ROOT"
rm -rf /tmp/* /tmp/.[!.]*
