"""A gRPC service for the gateway's client tests: messages are bytes, and come back. Prints its port."""

import threading
from concurrent import futures

import grpc

failed = threading.Event()


def echo(request, context):
    sent = dict(context.invocation_metadata())
    context.send_initial_metadata([("seen-attempt", sent.get("quell-attempt", ""))])
    context.set_trailing_metadata([("seen-time-left", str(context.time_remaining() or ""))])
    return request


def flaky(request, context):
    if not failed.is_set():
        failed.set()
        context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
    return echo(request, context)


def broken(request, context):
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "never")


def hang(request, context):
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(30)
    return request


def count(request, context):
    for n in range(int(request)):
        yield str(n).encode()


def chat(requests, context):
    yield from requests


def handler(name):
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    return {
        "Echo": unary(echo),
        "Limited": unary(echo),
        "Flaky": unary(flaky),
        "Broken": unary(broken),
        "Hang": unary(hang),
        "Count": stream(count),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
    }[name]


class Tour(grpc.GenericRpcHandler):
    def service(self, call):
        return handler(call.method.rsplit("/", 1)[1])


server = grpc.server(futures.ThreadPoolExecutor(16), handlers=[Tour()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
