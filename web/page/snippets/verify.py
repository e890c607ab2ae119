import base64
import hashlib
import hmac
import time


def verify(secret, headers, body):
    """Whether a request is from Waybill. body is the bytes as they arrived, before any parsing."""
    ident, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{ident}.{stamp}.".encode() + body, hashlib.sha256)
    want = "v1," + base64.b64encode(mac.digest()).decode()
    given = headers.get("webhook-signature", "").split()  # several while a secret is rotated
    return any(hmac.compare_digest(one.encode(), want.encode()) for one in given)
