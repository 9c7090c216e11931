"""The gRPC tour of the gateway's client tests, by Python's grpcio. Usage: grpc_tour.py HOST:PORT [CA]

Prints one JSON line per stop; what they should say is in tests/gateway/clients.
"""

import json
import queue
import sys

import grpc

target, *ca = sys.argv[1:]
options = [("grpc.enable_retries", 0)]  # whatever is tried again is tried by the gateway
if ca:
    with open(ca[0], "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    channel = grpc.secure_channel(target, credentials, options)
else:
    channel = grpc.insecure_channel(target, options)


def unary(name, method, request, timeout=30):
    told = {"stop": name}
    try:
        reply, call = channel.unary_unary(f"/tour.Tour/{method}").with_call(request, timeout=timeout)
        told["body"] = reply.decode() if len(reply) < 200 else ("as sent" if reply == request else "not as sent")
        error = call
    except grpc.RpcError as caught:
        error, told["body"] = caught, None
    metadata = dict(error.initial_metadata() or ()) | dict(error.trailing_metadata() or ())
    told["code"] = error.code().name
    for field in ["quell-attempts", "quell-stop", "seen-attempt"]:
        told[field] = metadata.get(field)
    told["time-left-told"] = float(metadata.get("seen-time-left") or 0) > 0
    print(json.dumps(told), flush=True)


unary("unary", "Echo", b"hello")
unary("large", "Echo", bytes(i % 251 for i in range(1_000_000)))
unary("retried", "Flaky", b"again")
unary("rejected", "Broken", b"x")
unary("passes", "Limited", b"one")
unary("refused", "Limited", b"two")
unary("late", "Hang", b"x", timeout=0.5)

counted = [message.decode() for message in channel.unary_stream("/tour.Tour/Count")(b"5", timeout=30)]
print(json.dumps({"stop": "stream", "body": " ".join(counted)}), flush=True)

# Each message is sent when the one before has come back: nothing on the way may wait for more.
outbox = queue.Queue()
said = []
outbox.put(b"0")
for message in channel.stream_stream("/tour.Tour/Chat")(iter(outbox.get, None), timeout=30):
    said.append(message.decode())
    outbox.put(str(len(said)).encode() if len(said) < 5 else None)
print(json.dumps({"stop": "chat", "body": " ".join(said)}), flush=True)
