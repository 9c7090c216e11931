//! What the settings of the gateway mean.

use std::time::Duration;

use quell::core::mode::Mode;

use super::{
    tests::{parse, with},
    *,
};

const FILE: &str = include_str!("gateway.toml");

#[test]
fn the_gateways_own_settings_mean_what_they_say() {
    let config = parse(FILE).unwrap();
    let gateway = &config.gateway;
    assert_eq!(gateway.listen, Listen::Unix("/run/quell.sock".into()));
    assert_eq!(gateway.admin_token, Some(Secret::File("/etc/quell/admin.token".into())));
    assert_eq!(gateway.role, quell::core::credit::Role::Edge);
    let trusted = |address: &str| {
        let address: std::net::IpAddr = address.parse().unwrap();
        gateway.trusted_hops.iter().any(|net| net.contains(&address))
    };
    assert!(trusted("10.1.2.3") && trusted("127.0.0.1") && trusted("fd00::1"));
    assert!(!trusted("11.0.0.1") && !trusted("127.0.0.2"));
    assert_eq!(gateway.tls.as_ref().unwrap().client_ca, Some("ca.pem".into()));
    assert_eq!(gateway.access_log, AccessLog::File("/var/log/quell.log".into()));
    assert_eq!((gateway.log_error_body, gateway.watch), (512, None));
    assert_eq!(
        [gateway.caller_pause, gateway.drain_delay, gateway.drain],
        [20, 5, 10].map(Duration::from_secs)
    );
    assert_eq!(gateway.otlp.as_deref(), Some("http://127.0.0.1:4318"));
    assert_eq!(config.idle, [], "the gateway acts on all of it");
}

#[test]
fn an_upstream_says_how_it_is_reached() {
    let config = parse(FILE).unwrap();
    let payments = &config.upstreams["payments"];
    assert_eq!((payments.protocol, payments.host), (Protocol::Http2, HostField::Rewrite));
    assert_eq!(payments.connect_timeout, Duration::from_millis(500));
    assert_eq!((payments.endpoints[0].tls, payments.endpoints[1].tls), (false, true));
    assert_eq!(payments.tls.server_name.as_deref(), Some("payments.internal"));
    assert_eq!(payments.spec.endpoints, 2);
    let usual = &with("[upstream.x]").unwrap().upstreams["x"];
    assert_eq!((usual.protocol, usual.host), (Protocol::Auto, HostField::Keep));
    assert_eq!(usual.resolve, Duration::from_secs(30));
    assert_eq!(usual.connect_timeout, Duration::from_secs(2));
}

#[test]
fn a_route_says_what_it_takes_and_what_it_makes_of_it() {
    let config = parse(FILE).unwrap();
    let [pay, stock, rest] = config.routes.as_slice() else { panic!() };
    assert_eq!(pay.matches.host.as_deref(), Some("api.example.com"));
    assert_eq!(pay.matches.path, PathMatch::Prefix("/pay".to_owned()));
    assert_eq!(pay.matches.headers, [("x-version".to_owned(), "2".to_owned())]);
    assert_eq!((pay.rewrite.as_deref(), stock.rewrite.as_deref()), (Some("/v2"), Some("")));
    assert_eq!(stock.matches.path, PathMatch::Exact("/stock".to_owned()));
    assert_eq!((stock.name.as_str(), rest.name.as_str()), ("*.example.com/stock", "/"));
    assert_eq!((pay.protocol, stock.protocol), (RouteProtocol::Http, RouteProtocol::Grpc));
    assert_eq!(rest.matches, Match::default());
    assert_eq!(pay.fallback.as_ref().unwrap().body, "[]");
    assert_eq!(rest.fallback.as_ref().unwrap().content_type, "text/plain; charset=utf-8");
}

#[test]
fn who_calls_is_asked_wherever_there_are_tenants_unless_said() {
    let config = parse(FILE).unwrap();
    let needs: Vec<_> = config.routes.iter().map(|route| route.tenants).collect();
    assert_eq!(needs, [TenantsNeed::Required, TenantsNeed::Off, TenantsNeed::Optional]);
    let alone = with("[upstream.x]\n[[route]]\nupstream = \"x\"").unwrap();
    assert_eq!(alone.routes[0].tenants, TenantsNeed::Off);
    let shop = &config.tenants["shop"];
    assert_eq!((shop.keys.len(), shop.mode), (2, Mode::Report));
    let limits: Vec<_> = config.routes.iter().flat_map(|route| &route.rate_limit).collect();
    let keys: Vec<_> = limits.iter().map(|limit| limit.key.to_string()).collect();
    assert_eq!(keys, ["ip", "header:x-api-key", "tenant"]);
    assert_eq!((limits[0].mode, limits[2].mode), (Mode::Enforce, Mode::Report));
}

#[test]
fn a_routes_timeouts_go_over_its_policys() {
    let config = parse(FILE).unwrap();
    let times = |route: &Route| {
        let spec = config.policy_of(route).spec;
        (spec.attempts, spec.timeout, spec.per_try_timeout)
    };
    let seconds = Duration::from_secs;
    assert_eq!(times(&config.routes[0]), (4, seconds(4), Some(seconds(1))));
    assert_eq!(times(&config.routes[1]), (2, seconds(60), Some(seconds(60))));
    // All of what the route says, as it says no more.
    assert_eq!(times(&config.routes[2]), (2, seconds(3), Some(seconds(3))));
}
