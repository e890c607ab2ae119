"""A receiver of webhooks, whole: verify, inbox, 200, worker, apply if newer, reconcile. Python 3.9 or newer, standard library only.

    WAYBILL_URL=https://hooks.example.com WAYBILL_KEY=wbt_... WEBHOOK_SECRET=whsec_... python3 receiver.py 3000
"""
import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = [base64.b64decode(s[len("whsec_"):]) for s in os.environ["WEBHOOK_SECRET"].split()]  # two while one is rotated
TOLERANCE = 300
MAX_BODY = 1 << 20
DATABASE = os.environ.get("DATABASE", "inbox.sqlite")
RECONCILE_EVERY = float(os.environ.get("RECONCILE_EVERY", "3600"))
wake = threading.Event()


def database():
    db = sqlite3.connect(DATABASE, timeout=10, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")  # what was answered with 200 survives a power cut
    return db


def migrate(db):
    db.execute("create table if not exists inbox (id text primary key, body blob not null, done integer not null default 0)")
    db.execute("create index if not exists inbox_waiting on inbox (done) where done = 0")
    db.execute("create table if not exists bookmark (one integer primary key check (one = 1), cursor text not null)")
    db.execute("create table if not exists state (type text, id text, version integer not null, data text not null, primary key (type, id))")


def verify(headers, body):
    """The message's id when one of the signatures is ours, else None. Over the bytes as they arrived, before any parsing."""
    ident, stamp, given = headers.get("webhook-id"), headers.get("webhook-timestamp"), headers.get("webhook-signature")
    if not ident or not stamp or not given or not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE:
        return None
    for secret in SECRETS:
        ours = base64.b64encode(hmac.new(secret, f"{ident}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
        for signature in given.split():
            if hmac.compare_digest(signature.encode(), ("v1," + ours).encode()):
                return ident
    return None


def store(db, ident, body):
    """Puts a message into the inbox, once for each id; says whether it was new."""
    new = db.execute("insert into inbox (id, body) values (?, ?) on conflict do nothing", (ident, body)).rowcount == 1
    if new:
        wake.set()
    return new


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(int(length))
        ident = verify(self.headers, body)
        if ident is None:
            return self.answer(401)
        try:
            db = database()
            store(db, ident, body)
            db.close()
        except sqlite3.Error:
            return self.answer(503)  # the sender tries again
        self.answer(200)  # it is in the inbox, new or not: the work comes later

    def do_GET(self):  # for looking at: what the worker has made of it
        db = database()
        rows = db.execute("select type, id, version, data from state order by type, id").fetchall()
        db.close()
        self.answer(200, json.dumps([{"type": t, "id": i, "version": v, "data": json.loads(d)} for t, i, v, d in rows]).encode())

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def apply(db, event):
    """Writes the state if the event is newer than what is there: one statement, so that stale news changes nothing."""
    if event.get("test"):
        return
    resource = event["resource"]
    db.execute(
        "insert into state (type, id, version, data) values (?, ?, ?, ?) on conflict (type, id) do update"
        " set version = excluded.version, data = excluded.data where state.version < excluded.version",
        (resource["type"], resource["id"], event["sequence"], json.dumps(event["data"])))


def work():
    db = database()
    while True:
        wake.clear()
        row = db.execute("select id, body from inbox where done = 0 order by rowid limit 1").fetchone()
        if row is None:
            wake.wait(1)
            continue
        db.execute("begin immediate")
        try:
            apply(db, json.loads(row[1]))
            db.execute("update inbox set done = 1 where id = ?", (row[0],))
            db.execute("commit")  # the effect and the mark, or neither
        except Exception as why:  # what this cannot handle must not hold up the rest
            db.execute("rollback")
            db.execute("update inbox set done = 2 where id = ?", (row[0],))
            print("failed:", row[0], why, file=sys.stderr)


def reconcile():
    """Reads the catalog from where it stopped; what never arrived goes into the inbox as if it had."""
    db = database()
    while True:
        try:
            row = db.execute("select cursor from bookmark").fetchone()
            cursor, more = row[0] if row else "", True
            while more:
                query = urllib.parse.urlencode({"limit": 200, **({"after": cursor} if cursor else {})})
                request = urllib.request.Request(os.environ["WAYBILL_URL"].rstrip("/") + "/v1/events?" + query,
                                                 headers={"Authorization": "Bearer " + os.environ["WAYBILL_KEY"]})
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        page = json.load(answer)
                except urllib.error.HTTPError as refused:
                    if refused.code != 410 or not cursor:
                        raise
                    cursor = ""  # older than what is kept: read all that there is
                    continue
                for event in page["data"]:
                    store(db, event["id"], json.dumps(event).encode())
                cursor, more = page["next"], page["more"]
                db.execute("insert into bookmark values (1, ?) on conflict (one) do update set cursor = excluded.cursor", (cursor,))
        except Exception as why:
            print("not reconciled:", why, file=sys.stderr)
        time.sleep(RECONCILE_EVERY)


if __name__ == "__main__":
    migrate(database())
    for loop in (work, reconcile):
        threading.Thread(target=loop, daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print("listening on", server.server_address[1], flush=True)
    server.serve_forever()
