/// Instantiates the conformance suite as tests, a module `conformance` in the place where it stands: each case is a
/// module, each runtime a test in it, as in `conformance::resets::tokio`.
///
/// | what | how |
/// |---|---|
/// | all cases, on the embedded broker | `conformance_suite!(tokio => TokioHost, mine => MyHost);` |
/// | those that need no broker: the contract of `Runtime` | `conformance_suite!(runtime only: mine => MyHost);` |
/// | those that need one, on another cluster | `conformance_suite!(on MyCluster: mine => MyHost);` |
///
/// Types are looked up where it stands.
#[macro_export]
macro_rules! conformance_suite {
    (runtime only: $($name:ident => $host:ty),+ $(,)?) => {
        mod conformance {
            use super::*;
            $crate::__conformance_runtime!({ $($name => $host),+ });
        }
    };
    (on $cluster:ty: $($name:ident => $host:ty),+ $(,)?) => {
        mod conformance {
            use super::*;
            $crate::__conformance_cluster!({ $cluster } { $($name => $host),+ });
        }
    };
    ($($name:ident => $host:ty),+ $(,)?) => {
        mod conformance {
            use super::*;
            $crate::__conformance_runtime!({ $($name => $host),+ });
            $crate::__conformance_cluster!({ $crate::conformance::Embedded } { $($name => $host),+ });
        }
    };
}

/// Cases that need a runtime and nothing else.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_runtime {
    ($hosts:tt) => {
        $crate::__conformance_case!(clock {} $hosts);
        $crate::__conformance_case!(timers {} $hosts);
        $crate::__conformance_case!(tasks {} $hosts);
        $crate::__conformance_case!(blocking_jobs {} $hosts);
        $crate::__conformance_case!(dialling {} $hosts);
        $crate::__conformance_case!(lookup {} $hosts);
        $crate::__conformance_case!(sockets {} $hosts);
        $crate::__conformance_case!(full_sockets {} $hosts);
    };
}

/// Cases that need a cluster too.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cluster {
    ($cluster:tt $hosts:tt) => {
        $crate::__conformance_case!(journey $cluster $hosts);
        $crate::__conformance_case!(slow_sockets $cluster $hosts);
        $crate::__conformance_case!(half_frames $cluster $hosts);
        $crate::__conformance_case!(peer_stops_reading $cluster $hosts);
        $crate::__conformance_case!(resets $cluster $hosts);
        $crate::__conformance_case!(unresolvable_names $cluster $hosts);
        $crate::__conformance_case!(handler_panics $cluster $hosts);
        $crate::__conformance_case!(handler_hangs $cluster $hosts);
        $crate::__conformance_case!(cancelled_start $cluster $hosts);
        $crate::__conformance_case!(cancelled_waits $cluster $hosts);
        $crate::__conformance_case!(cancelled_next $cluster $hosts);
        $crate::__conformance_case!(cancelled_changes $cluster $hosts);
        $crate::__conformance_case!(cancelled_calls $cluster $hosts);
        $crate::__conformance_case!(cancelled_shutdown $cluster $hosts);
        $crate::__conformance_case!(shutdown_under_load $cluster $hosts);
        $crate::__conformance_case!(thousand_reconnects $cluster $hosts);
        $crate::__conformance_case!(back_pressure $cluster $hosts);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_case {
    ($case:ident { $($cluster:ty)? } { $($name:ident => $host:ty),+ }) => {
        mod $case {
            #[allow(unused_imports, reason = "types that are named by their whole path need none")]
            use super::*;
            $crate::__conformance_tests!($case [ $($cluster)? ] $($name => $host),+);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($case:ident [] $($name:ident => $host:ty),+) => {$(
        #[test]
        fn $name() {
            $crate::conformance::watch(stringify!($case), $crate::conformance::cases::$case::run::<$host>);
        }
    )+};
    ($case:ident [ $cluster:ty ] $($name:ident => $host:ty),+) => {
        // A parameter that stands once goes into each.
        type OnCluster = $cluster;
        $(
            #[test]
            fn $name() {
                let run = $crate::conformance::cases::$case::run::<$host, OnCluster>;
                $crate::conformance::watch(stringify!($case), run);
            }
        )+
    };
}
