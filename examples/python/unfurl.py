"""unfurl.py - the C API of an installed unfurl in Python, through cffi.

Nothing is written twice: the compiler preprocesses the installed headers, cffi reads the declarations. Functions that
are inline in the headers, such as the defaults of options, are compiled into a small library beside it. Needs cffi,
pkg-config and a C compiler; PKG_CONFIG_PATH names an unfurl that is not in the system's folders.

    from unfurl import ffi, lib, check

`lib` has the functions and enumerators, `ffi` makes C values (`ffi.new("uf_context **")`), and `check` turns a uf_status
that is not UF_OK into an exception with the library's sentence. Macros are not there: UF_SHAPE is `shape()`.
"""
import os
import re
import shlex
import subprocess
import tempfile

import cffi


def _declarations(text):
    """Of a preprocessed file, the unfurl headers' part, with prototypes in place of inline functions."""
    kept, ours = [], False
    for line in text.splitlines():
        mark = re.match(r'# \d+ "(.*?)"', line)
        if mark:
            ours = os.path.basename(os.path.dirname(mark[1])) == "unfurl"
        elif ours:
            kept.append(line)
    return re.sub(r"static inline ([^;{]*?\)) \{\n.*?\n\}", r"\1;", "\n".join(kept), flags=re.S)


def _load():
    flags = shlex.split(subprocess.check_output(["pkg-config", "--cflags", "--libs", "unfurl"], text=True))
    compiler = shlex.split(os.environ.get("CC", "cc"))
    interface = cffi.FFI()
    text = subprocess.run(compiler + ["-E", "-D__attribute__(x)=", *flags, "-x", "c", "-"], text=True, check=True,
                          input="#include <unfurl/unfurl.h>\n", stdout=subprocess.PIPE).stdout
    interface.cdef(_declarations(text))
    source = ("#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
              "#define static\n#define inline\n#include <unfurl/unfurl.h>\n")
    folders = [flag[2:] for flag in flags if flag.startswith("-L")]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "inline.so")
        command = compiler + ["-shared", "-fPIC", "-O1", "-o", path, "-x", "c", "-", "-Wl,--no-as-needed", *flags]
        subprocess.run(command + ["-Wl,-rpath," + one for one in folders], text=True, check=True, input=source)
        return interface, interface.dlopen(path)  # it stays loaded when its file has gone


ffi, lib = _load()


class Error(Exception):
    """A call that failed: the name of its status and the library's sentence."""


def check(status):
    if status != lib.UF_OK:
        name = ffi.string(lib.uf_status_name(status)).decode()
        raise Error(f"{name}: {ffi.string(lib.uf_last_error()).decode()}")


def create(function, *arguments):
    """The object that function(*arguments, &object) creates."""
    kind = ffi.typeof(function).args[-1].item
    made = ffi.new(ffi.getctype(kind, "*"))
    check(function(*arguments, made))
    return made[0]


def shape(*extents):
    made = ffi.new("uf_shape *")
    made.rank = len(extents)
    made.extent[0:len(extents)] = extents
    return made[0]
