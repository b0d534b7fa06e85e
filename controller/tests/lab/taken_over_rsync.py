"""What somebody tries who runs code of his own in rsync's place: in its jail, with its rights.

The system's Python runs it there, with the standard library only; its argument is a JSON of what is to be reached. It
prints how each attempt ended: "done", or the name of its error.
"""

from __future__ import annotations

TRY = """\
import ctypes, errno, json, os, socket, stat, sys
targets = json.loads(sys.argv[1])
libc = ctypes.CDLL("libc.so.6", use_errno=True)
found = {}
def tried(name, attempt):
    try:
        attempt()
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
    else:
        found[name] = "done"
def call(function, *arguments):
    result = function(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result
def mount(source, target, kind, flags):
    call(libc.mount, source, target, kind, ctypes.c_ulong(flags), None)
def remounts(whose):
    tried(f"{whose}: run programs in the tree", lambda: mount(b"none", b"/standby", None, 32 | 4096))
    tried(f"{whose}: write to /usr", lambda: mount(b"none", b"/usr", None, 32 | 4096 | 2 | 4))
    tried(f"{whose}: uncover what is below", lambda: call(libc.umount2, b"/standby", 2))
    tried(f"{whose}: uncover the machine's root", lambda: call(libc.umount2, b"/", 2))
    tried(f"{whose}: processes", lambda: mount(b"proc", b"/standby", b"proc", 0))
"""
FILES = (
    TRY
    + """\
canary = targets["canary"]
tried("shadow", lambda: open("/etc/shadow").close())
tried("canary", lambda: open(canary).close())
tried("canary by ..", lambda: open("/standby/" + "../" * 20 + canary).close())
tried("change of /usr", lambda: open("/usr/bin/new", "w").close())
tried("change of /", lambda: os.mkdir("/new"))
tried("hard link", lambda: os.link("/usr/bin/env", "/standby/env"))
tried("program in the tree", lambda: os.execv("/standby/bin/busybox", ["true"]))
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
def by_handle():
    content = bytes.fromhex(targets["handle"])
    handle = Handle(len(content), targets["handle_kind"], (ctypes.c_ubyte * 128)(*content))
    os.close(call(libc.open_by_handle_at, os.open("/standby", os.O_RDONLY), ctypes.byref(handle), os.O_RDWR))
tried("canary by its inode", by_handle)
for name, device in (("null", os.makedev(1, 3)), ("disk", targets["disk"])):
    path = f"/standby/{name}.node"
    tried(f"make {name}", lambda: os.mknod(path, stat.S_IFBLK if name == "disk" else stat.S_IFCHR, device))
    if found[f"make {name}"] == "done":
        tried(f"open {name}", lambda: open(path).close())
        os.unlink(path)
remounts("as it is")
tried("name", lambda: socket.sethostname("taken"))
def breakout():
    os.makedirs("/standby/x", exist_ok=True)
    here = os.open("/", os.O_RDONLY)
    os.chroot("/standby/x")
    os.fchdir(here)
    for _ in range(20):
        os.chdir("..")
    os.chroot(".")
    open(canary).close()
tried("out of the root", breakout)
# In a namespace of its own it may do everything, but to what it had.
if os.fork() == 0:
    found.clear()
    call(libc.unshare, 0x10000000 | 0x20000)
    remounts("in its own namespace")
    tried("in its own namespace: out of the root", breakout)
    print(json.dumps(found), flush=True)
    os._exit(0)
os.wait()
found["outside"] = sorted(os.listdir("/"))
print(json.dumps(found))
"""
)
REACH = (
    TRY
    + """\
for name, pid in targets["processes"].items():
    tried(f"end {name}", lambda: os.kill(pid, 9))
    tried(f"trace {name}", lambda: call(libc.ptrace, 0x4206, pid, 0, 0))
    tried(f"limit {name}", lambda: __import__("resource").prlimit(pid, 7, (0, 0)))
# Its own process group: whoever waits outside may not be in it. The first process of a namespace survives.
if os.fork() == 0:
    os.kill(0, 9)
os.wait()
def connect(family, address):
    with socket.socket(family) as there:
        there.settimeout(5)
        there.connect(address)
tried("port", lambda: connect(socket.AF_INET, ("127.0.0.1", targets["port"])))
tried("LXD", lambda: connect(socket.AF_UNIX, targets["lxd"]))
tried("abstract socket", lambda: connect(socket.AF_UNIX, "\\0" + targets["abstract"]))
tried("shared memory", lambda: call(libc.shmget, targets["memory"], 0, 0))
print(json.dumps(found))
"""
)
#: Leaves its session in every way that it has, says so, and writes from a child into what it has kept open.
LEAVE = """\
import ctypes, fcntl, json, os, signal, sys, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
ctypes.CDLL("libc.so.6").prctl(1, 0, 0, 0, 0)
kept = os.open("/standby/alive", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
for descriptor in range(3, 256):
    if descriptor != kept:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        except OSError:
            pass
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(kept, b".")
        time.sleep(0.01)
print("left", flush=True)
os.close(1)
# Should nobody be able to end it, it ends.
time.sleep(120)
"""
