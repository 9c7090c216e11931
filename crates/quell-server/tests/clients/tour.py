"""The tour of the gateway's client tests, by Python's requests or httpx. Usage: tour.py CLIENT BASE [CA]

Prints one JSON line per stop; what they should say is in tests/gateway/clients.
"""

import hashlib
import json
import sys


def requests_client(ca):
    import requests

    session = requests.Session()
    session.verify = ca or True

    def call(method, url, headers=None, body=None):
        reply = session.request(method, url, headers=headers, data=body, timeout=30)
        version = {10: "1.0", 11: "1.1"}[reply.raw.version]
        return reply.status_code, version, reply.headers, reply.content

    def lines(url):
        # One by one: a larger chunk would wait for the next event.
        with session.get(url, stream=True, timeout=30) as reply:
            yield from reply.iter_lines(chunk_size=1)

    return call, lines


def httpx_client(ca, http2):
    import ssl

    import httpx

    verify = ssl.create_default_context(cafile=ca) if ca else True
    # Over plain TCP there is nothing to negotiate with: HTTP/2 is spoken from the first byte.
    client = httpx.Client(http1=not http2, http2=http2, verify=verify, timeout=30)

    def call(method, url, headers=None, body=None):
        reply = client.request(method, url, headers=headers, content=body)
        return reply.status_code, reply.http_version.removeprefix("HTTP/"), reply.headers, reply.content

    def lines(url):
        with client.stream("GET", url) as reply:
            for line in reply.iter_lines():
                yield line.encode()

    return call, lines


def main():
    name, base, *ca = sys.argv[1:]
    ca = ca[0] if ca else None
    call, lines = {
        "requests": lambda: requests_client(ca),
        "httpx": lambda: httpx_client(ca, http2=False),
        "httpx-http2": lambda: httpx_client(ca, http2=True),
    }[name]()

    def stop(name, method, path, **more):
        status, version, headers, body = call(method, base + path, **more)
        told = {"stop": name, "status": status, "version": version}
        for field in ["quell-attempts", "quell-stop", "retry-after"]:
            told[field] = headers.get(field)
        text = body.decode() if len(body) < 200 else hashlib.sha256(body).hexdigest()
        print(json.dumps({**told, "body": text}), flush=True)

    stop("get", "GET", "/hello?from=here")
    stop("post", "POST", "/echo", body=bytes(i % 251 for i in range(100_000)))
    stop("retried", "GET", "/flaky")
    stop("passes", "GET", "/limited")
    stop("refused", "GET", "/limited")
    stop("large", "GET", "/large")
    events = []
    for line in lines(base + "/events"):
        if line.startswith(b"data: "):
            events.append(line.removeprefix(b"data: ").decode())
            call("POST", base + "/next")  # the next one comes only now
    print(json.dumps({"stop": "stream", "body": " ".join(events)}), flush=True)


main()
