//! Who comes in, where it goes, and where it is kept.

use quell_config::{
    print::{Settings, Text, limit, texts},
    word,
};

use super::{
    Gateway, PathMatch, Route, RouteLimit, ServerTls, Store, Tenant, Worker,
    gateway::ROLES,
    route::{EXPIRES, NEEDS, PROTOCOLS},
    tenant::PRIORITIES,
    value::Written,
};

pub(super) fn gateway(gateway: &Gateway) -> Settings {
    let watch = gateway.watch.map_or_else(|| "off".to_owned(), |every| Written(every).to_string());
    Settings::default()
        .word("listen", &gateway.listen.to_string())
        .word("admin", &gateway.admin.to_string())
        .maybe_word("admin_token", gateway.admin_token.as_ref())
        .word("role", word(&ROLES, gateway.role))
        .with("trusted_hops", texts(&gateway.trusted_hops))
        .time("caller_pause", gateway.caller_pause)
        .time("drain_delay", gateway.drain_delay)
        .time("drain", gateway.drain)
        .maybe("tls", gateway.tls.as_ref().map(server_tls))
        .word("access_log", &gateway.access_log.to_string())
        .with("log_error_body", gateway.log_error_body)
        .maybe_word("otlp", gateway.otlp.as_ref())
        .word("watch", &watch)
}

fn server_tls(tls: &ServerTls) -> Settings {
    Settings::default()
        .word("cert", &tls.cert.display().to_string())
        .word("key", &tls.key.display().to_string())
        .maybe_word("client_ca", tls.client_ca.as_ref().map(|path| path.display()))
}

pub(super) fn tenant(tenant: &Tenant) -> Settings {
    Settings::default()
        .with("keys", texts(&tenant.keys))
        .maybe("rate_limit", tenant.rate_limit.map(|spec| limit(&spec).mode(tenant.mode)))
        .word("priority", word(&PRIORITIES, tenant.priority))
}

pub(super) fn route(route: &Route) -> Settings {
    let keys = route.idempotency.map(|keys| {
        let inside = Settings::default().with("required", keys.required).time("ttl", keys.spec.ttl);
        inside.time("lease", keys.spec.lease).word("on_expiry", word(&EXPIRES, keys.spec.on_expiry))
    });
    let fallback = route.fallback.as_ref().map(|fallback| {
        let inside = Settings::default().with("status", fallback.status);
        inside.word("body", &fallback.body).word("content_type", &fallback.content_type)
    });
    let settings = Settings::default()
        .word("name", &route.name)
        .inside("match", matches(route))
        .word("upstream", &route.upstream)
        .maybe_word("policy", route.policy.as_ref());
    let settings = match route.rewrite.as_deref() {
        None => settings,
        Some("") => settings.with("strip_prefix", true),
        Some(rewrite) => settings.word("rewrite", rewrite),
    };
    settings
        .maybe_time("timeout", route.timeout)
        .maybe_time("per_try_timeout", route.per_try_timeout)
        .word("protocol", word(&PROTOCOLS, route.protocol))
        .word("tenants", word(&NEEDS, route.tenants))
        .maybe("rate_limit", route.rate_limit.as_ref().map(route_limit))
        .maybe("idempotency", keys)
        .maybe("fallback", fallback)
}

fn matches(route: &Route) -> Settings {
    let matches = &route.matches;
    let name = match matches.path {
        PathMatch::Prefix(_) => "path",
        PathMatch::Exact(_) => "exact",
    };
    let field = |(name, value): &(String, String)| format!("{} = {}", Text(name), Text(value));
    let headers: Vec<_> = matches.headers.iter().map(field).collect();
    Settings::default()
        .maybe_word("host", matches.host.as_ref())
        .word(name, matches.path.as_str())
        .with("methods", texts(&matches.methods))
        .maybe("headers", (!headers.is_empty()).then(|| format!("{{ {} }}", headers.join(", "))))
}

fn route_limit(written: &RouteLimit) -> Settings {
    limit(&written.spec).word("key", &written.key.to_string()).mode(written.mode)
}

pub(super) fn store(store: &Store) -> Settings {
    let kind = |word| Settings::default().word("kind", word);
    match store {
        Store::Memory => kind("memory"),
        Store::Embedded(path) => kind("embedded").word("path", &path.display().to_string()),
        Store::Redis(at) => kind("redis").maybe_word("url", at.as_ref()),
        Store::Postgres(at) => kind("postgres").maybe_word("url", at.as_ref()),
    }
}

pub(super) fn worker(worker: &Worker) -> Settings {
    let tiers: Vec<_> = worker.tiers.iter().copied().map(Written).collect();
    let source = Settings::default()
        .maybe_word("kafka", worker.kafka.as_ref())
        .word("topic", &worker.topic)
        .maybe_word("group", worker.group.as_ref());
    Settings::default()
        .inside("source", source)
        .word("handler", &worker.handler)
        .with("tiers", texts(&tiers))
}
