//! Parts of a controller that the testbed switches off or scales, to see what each is worth.
//!
//! `switches!` gives a controller a `Switches`, whose methods it asks: `hold()` says whether a part
//! works, `beta(BETA)` returns the constant, scaled. Without the feature `ablation` a `Switches` is
//! empty, parts always work and constants are what they are. With it the row that
//! `Controllers::with_switches` puts into a table has a parameter for each:
//! `keel:without.hold=true,scale.beta=0.8`.

use std::time::Duration;

/// A constant that can be scaled.
pub(crate) trait Scaled: Copy {
    /// This times `factor`, for 1 exactly.
    #[cfg_attr(
        not(feature = "ablation"),
        expect(dead_code, reason = "nothing is scaled")
    )]
    fn times(self, factor: f64) -> Self;
}

impl Scaled for f64 {
    fn times(self, factor: f64) -> Self {
        self * factor
    }
}

impl Scaled for Duration {
    fn times(self, factor: f64) -> Self {
        if factor == 1.0 {
            return self;
        }
        self.mul_f64(factor)
    }
}

/// Factors from a tenth to ten.
#[cfg(feature = "ablation")]
pub(crate) const fn factor(
    name: &'static str,
    meaning: &'static str,
) -> evenkeel_spec::SpecParameter {
    evenkeel_spec::SpecParameter::number(name, meaning, 0.1, 10.0, Some(1.0))
}

macro_rules! switches {
    (
        parameters { $($parameter:expr),* $(,)? }
        without { $($part:ident: $what:literal,)* }
        scale { $($constant:ident: $which:literal,)* }
    ) => {
        /// What works, and by what constants are scaled.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(super) struct Switches {
            $(#[cfg(feature = "ablation")] $part: bool,)*
            $(#[cfg(feature = "ablation")] $constant: f64,)*
        }

        impl Default for Switches {
            fn default() -> Self {
                Self {
                    $(#[cfg(feature = "ablation")] $part: true,)*
                    $(#[cfg(feature = "ablation")] $constant: 1.0,)*
                }
            }
        }

        impl Switches {
            $(
                #[doc = concat!("Whether this works: ", $what, ".")]
                #[inline]
                pub(super) fn $part(self) -> bool {
                    #[cfg(feature = "ablation")]
                    return self.$part;
                    #[cfg(not(feature = "ablation"))]
                    true
                }
            )*
            $(
                #[doc = concat!("Scales ", $which, ".")]
                #[inline]
                pub(super) fn $constant<T: $crate::switches::Scaled>(self, constant: T) -> T {
                    #[cfg(feature = "ablation")]
                    return $crate::switches::Scaled::times(constant, self.$constant);
                    #[cfg(not(feature = "ablation"))]
                    constant
                }
            )*

            /// The controller's parameters, and one for each switch.
            #[cfg(feature = "ablation")]
            pub(super) const PARAMETERS: &'static [evenkeel_spec::SpecParameter] = &[
                $($parameter,)*
                $(evenkeel_spec::SpecParameter::flag(
                    concat!("without.", stringify!($part)),
                    $what,
                    false,
                ),)*
                $($crate::switches::factor(
                    concat!("scale.", stringify!($constant)),
                    $which,
                ),)*
            ];

            /// Reads the switches.
            #[cfg(feature = "ablation")]
            pub(super) fn read(values: &evenkeel_spec::SpecValues) -> Self {
                Self {
                    $($part: !values.flag(concat!("without.", stringify!($part))),)*
                    $($constant: values.number(concat!("scale.", stringify!($constant))),)*
                }
            }
        }
    };
}
pub(crate) use switches;
