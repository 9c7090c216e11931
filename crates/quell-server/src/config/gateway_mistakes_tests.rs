use super::{
    matches::{Match, PathMatch},
    tests::{check, told, with},
};

#[test]
fn mistakes_about_the_gateway_are_told_in_their_place_with_what_to_write() {
    check(&[
        (
            "[gateway]\nlisten = \"8080\"",
            "3:10 gateway.listen is \"8080\": write an address and a port, such as \"127.0.0.1:8080\", or a socket, such as \"unix:/run/quell.sock\"",
        ),
        (
            "[gateway]\nadmin = \"0.0.0.0:1\"",
            "3:9 gateway.admin is 0.0.0.0:1: write an address on loopback, such as \"127.0.0.1:9901\"",
        ),
        (
            "[upstream.payments]\n[[route]]\nupstream = \"paymnets\"",
            "4:12 route[0].upstream is \"paymnets\", and no upstream is called that: did you mean \"payments\"?",
        ),
        (
            "[[route]]\nmatch = { path = \"/\" }",
            "2:1 route[0].upstream is missing: write the name of an upstream",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\npolicy = \"fast\"",
            "5:10 route[0].policy is \"fast\", and no policy is called that: write one, as [policy.fast]",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nidempotency = { ttl = \"1s\" }",
            "5:23 route[0].idempotency.ttl is 1s, less than idempotency.lease 60s: write at least the lease, such as \"24h\"",
        ),
        (
            "[worker.w]\nsource = { topic = \"t\" }\nhandler = \"h\"\ntiers = [\"0s\"]",
            "5:9 worker.w.tiers holds 0ns: write whole milliseconds from \"1ms\" to \"7d\", such as \"30s\"",
        ),
        (
            "[store]\nkind = \"redis\"\npath = \"x\"",
            "4:1 store.path is not known here: write kind or url",
        ),
        (
            "[gateway]\nlisten = \"unix:\"",
            "3:10 gateway.listen is \"unix:\": write an address and a port, such as \"127.0.0.1:8080\", or a socket, such as \"unix:/run/quell.sock\"",
        ),
        (
            "[gateway]\nadmin_token = \"secret\"",
            "3:15 gateway.admin_token is no place of a secret: write where the secret is, \"env:NAME\" or \"file:PATH\", never the secret itself",
        ),
        ("[gateway]\nrole = \"egde\"", "3:8 gateway.role is \"egde\": did you mean `edge`?"),
        (
            "[gateway]\ntrusted_hops = [\"127.0.0.1\", \"10.0.0.0/33\"]",
            "3:30 gateway.trusted_hops[1] is \"10.0.0.0/33\": write a network or an address, such as \"10.0.0.0/8\" or \"127.0.0.1\"",
        ),
        (
            "[gateway]\ntls = { cert = \"c.pem\" }",
            "3:1 gateway.tls.key is missing: write the path of a PEM file",
        ),
        (
            "[gateway]\ntls = { cert = \"c\", key = \"k\", ca = \"x\" }",
            "3:32 gateway.tls.ca is not known here: write cert, key or client_ca",
        ),
        (
            "[gateway]\ntls = { cert = \"c\", key = \"-----BEGIN\" }",
            "3:27 gateway.tls.key holds what should be in a file: write the path of the file",
        ),
        (
            "[gateway]\naccess_log = \"sterr\"",
            "3:14 gateway.access_log is \"sterr\": write \"off\", \"stdout\", \"stderr\" or a path, such as \"/var/log/quell.log\"",
        ),
        (
            "[gateway]\nlog_error_body = 65537",
            "3:18 gateway.log_error_body is 65537: write at most 65536 bytes, or 0 for none",
        ),
        (
            "[gateway]\notlp = \"127.0.0.1:4318\"",
            "3:8 gateway.otlp: this is no collector of traces: write such as \"http://127.0.0.1:4318\"",
        ),
        (
            "[gateway]\nwatch = 2",
            "3:9 gateway.watch is 2: write a duration with its unit, such as \"4s\" or \"1200ms\", or \"off\"",
        ),
        (
            "[gateway]\nwatch = \"0s\"",
            "3:9 gateway.watch is 0s: write a duration such as \"2s\", or \"off\"",
        ),
        (
            "[tenant.t]",
            "2:9 tenant.t.keys is missing: write where the hash of a key is, such as \"env:SHOP_KEY_HASH\"; `quell key new` makes both",
        ),
        (
            "[tenant.t]\nkeys = []",
            "3:8 tenant.t.keys is empty: write where the hash of a key is, such as \"env:SHOP_KEY_HASH\"; `quell key new` makes both",
        ),
        (
            "[tenant.t]\nkeys = [\"env:K\"]\nrate_limit = { per_second = 0 }",
            "4:29 tenant.t.rate_limit.per_second is 0: write a number from 0.000001 to 1000000000, such as 1000",
        ),
        (
            "[tenant.t]\nkeys = [\"env:K\"]\npriority = \"high\"",
            "4:12 tenant.t.priority is \"high\": write critical, default or sheddable",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nname = \"a\\\"b\"",
            "5:8 route[0].name cannot stand in a label: write 1 to 64 plain characters, such as \"pay\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { headers = { a = \"b\" } }\n[[route]]\nupstream = \"x\"",
            "6:1 route[1].name is missing, and would be \"/\", as another route is called: write another",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nname = \"a\"\n[[route]]\nname = \"a\"\nupstream = \"x\"\nmatch = { path = \"/x\" }",
            "7:8 route[1].name is \"a\", as another route is called: write another\n9:1 route[1].match is never reached, as route \"a\" takes all of it: write this route before that one",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { host = \"a:80\" }",
            "5:18 route[0].match.host is \"a:80\": write a name without a port, such as \"api.example.com\" or \"*.example.com\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { path = \"pay\" }",
            "5:18 route[0].match.path is \"pay\": write a path that begins with / and has no query, such as \"/pay\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { path = \"/a\", exact = \"/a\" }",
            "5:32 route[0].match.exact is written beside path: write one of them",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { methods = [\"get\"] }",
            "5:22 route[0].match.methods[0] is \"get\": write a method in capitals, such as \"GET\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { headers = { \"a b\" = \"x\" } }",
            "5:11 route[0].match.headers has \"a b\", which no field can be called: write such as \"x-version\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { headers = { cookie = \"x\" } }",
            "5:11 route[0].match.headers has cookie, whose value is a secret: write [tenant.…] to tell callers apart, or another field",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = { headers = \"x\" }",
            "5:21 route[0].match.headers is text: write a table, such as { … }",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nstrip_prefix = true\nrewrite = \"/v2\"",
            "6:11 route[0].rewrite is written beside strip_prefix: write one of them",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\ntimeout = \"1s\"\nper_try_timeout = \"2s\"",
            "6:19 route[0].per_try_timeout is 2s: write more than 0s and at most timeout, which is 1s",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nprotocol = \"grcp\"",
            "5:12 route[0].protocol is \"grcp\": did you mean `grpc`?",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\ntenants = \"required\"",
            "5:11 route[0].tenants asks for one, and the file has none: write [tenant.NAME] with keys, or \"off\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nrate_limit = { per_second = 5, key = \"tenant\" }",
            "5:38 route[0].rate_limit.key is \"tenant\", and the route knows none: write tenants = \"optional\" or \"required\" beside rate_limit, or another key",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nrate_limit = { per_second = 5, key = \"user\" }",
            "5:38 route[0].rate_limit.key is \"user\": write \"route\", \"tenant\", \"ip\" or a field, such as \"header:x-api-key\"",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nfallback = { status = 99 }",
            "5:23 route[0].fallback.status is 99: write a status from 200 to 599",
        ),
        (
            "[upstream.x]\n[[route]]\nupstream = \"x\"\nfallback = { content_type = \"a\\nb\" }",
            "5:29 route[0].fallback.content_type cannot stand in a field: write such as \"application/json\"",
        ),
    ]);
}

#[test]
fn a_long_fallback_is_refused() {
    let route = "[upstream.x]\n[[route]]\nupstream = \"x\"\n";
    let lines = format!("{route}fallback = {{ body = \"{}\" }}", "x".repeat(65_537));
    assert_eq!(
        told(with(&lines)),
        ["5:21 route[0].fallback.body has 65537 bytes: write at most 65536"]
    );
}

/// What comes second is reached unless the first takes all of it.
#[test]
fn a_route_covers_what_it_takes_before_the_other() {
    let of = |lines: &str| {
        let text = format!("[upstream.x]\n[[route]]\nupstream = \"x\"\nmatch = {{ {lines} }}");
        with(&text).unwrap().routes[0].matches.clone()
    };
    for (first, second, covers) in [
        ("", "path = \"/a\"", true),
        ("path = \"/a\"", "path = \"/a/b\"", true),
        ("path = \"/a\"", "path = \"/ab\"", false),
        ("path = \"/a\"", "", false),
        ("path = \"/a\"", "exact = \"/a\"", true),
        ("exact = \"/a\"", "path = \"/a\"", false),
        ("exact = \"/a\"", "exact = \"/a\"", true),
        ("host = \"*.a.b\"", "host = \"c.a.b\"", true),
        ("host = \"*.a.b\"", "host = \"a.b\"", false),
        ("host = \"*.a.b\"", "", false),
        ("methods = [\"GET\", \"HEAD\"]", "methods = [\"GET\"]", true),
        ("methods = [\"GET\"]", "", false),
        ("headers = { a = \"1\" }", "headers = { A = \"1\", b = \"2\" }", true),
        ("headers = { a = \"1\" }", "headers = { a = \"2\" }", false),
    ] {
        assert_eq!(of(first).covers(&of(second)), covers, "{first} before {second}");
    }
    let all = Match { path: PathMatch::Prefix("/".to_owned()), ..Match::default() };
    assert!(all.covers(&all));
}
