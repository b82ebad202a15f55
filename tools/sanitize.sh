#!/bin/sh
# The compiled modules, built with AddressSanitizer and UBSan into build/sanitize, and their tests run on them.
# Python's own allocator is switched off, so that every buffer has guards around it.
#
#     tools/sanitize.sh PYTHON [pytest arguments]
set -eu

python=$1
shift
compiler=${CC:-gcc}
for library in libasan.so libubsan.so; do
    if [ "$("$compiler" -print-file-name=$library)" = $library ]; then
        echo "sanitize: $compiler has no $library: install gcc's sanitizers" >&2
        exit 1
    fi
done

root=$(pwd)
scratch=$root/build/sanitize
echo "building the compiled modules with AddressSanitizer and UBSan in $scratch"
mkdir -p "$scratch"
# With their times, so that only what changed is compiled again.
find src \( -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' \
    -o -name '*.tsv' \) -print | tar -cf - -T - | tar -xf - -C "$scratch"
cp setup.py pyproject.toml README.md LICENSE "$scratch"
sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
(cd "$scratch" && CC=$compiler CFLAGS="$sanitizers" LDFLAGS="$sanitizers" ROCKETEER_COMPILE_ARGS="-O1 -g" \
    "$python" setup.py --quiet build_ext --inplace)

# Python itself is not instrumented, so the runtime comes first; it keeps memory till the end, which is no leak.
export LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc
export PYTHONPATH=$scratch/src
"$python" -c "
import rocketeer.store._index_loops as module
assert '$scratch' in module.__file__, module.__file__
"
exec "$python" -m pytest -p no:cacheprovider "$@"
